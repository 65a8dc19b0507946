// kafkajs: see client_programs.py for the request and the answer.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const request = JSON.parse(fs.readFileSync(0))
const read = path => fs.readFileSync(path, 'utf8')

function sasl() {
  if (!request.mechanism) return undefined
  if (request.mechanism === 'OAUTHBEARER') {
    return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: request.token }) }
  }
  return { mechanism: request.mechanism.toLowerCase(), username: request.username, password: request.password }
}

function tls() {
  if (request.protocol === 'PLAINTEXT') return false
  const own = request.certificate ? { key: read(request.certificate), cert: read(request.certificate) } : {}
  return { ca: [read(request.ca)], ...own }
}

async function main() {
  const kafka = new Kafka({
    brokers: [request.bootstrap],
    ssl: tls(),
    sasl: sasl(),
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 }
  })
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  for (const value of request.values) {
    await producer.send({ topic: request.topic, messages: [{ value }] })
    await new Promise(done => setTimeout(done, (request.seconds * 1000) / request.values.length))
  }
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: `group-${request.topic}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [request.topic], fromBeginning: true })
  const values = []
  await new Promise((done, failed) => {
    setTimeout(done, 30000).unref()
    consumer.on(consumer.events.CRASH, event => failed(event.payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === request.values.length) done()
      }
    }).catch(failed)
  })
  await consumer.disconnect()
  return { values }
}

main()
  .catch(error => ({ class: error.name, text: error.message }))
  .then(answer => process.stdout.write(JSON.stringify(answer), () => process.exit(0)))
