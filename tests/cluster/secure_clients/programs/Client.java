import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's Java client: see client_programs.py for the request and the answer. */
public class Client {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        Map<String, Object> answer;
        try {
            Properties settings = settings(request);
            produce(request, settings);
            answer = Map.of("values", consume(request, settings));
        } catch (Exception error) {
            Throwable found = error instanceof ExecutionException ? error.getCause() : error;
            answer = Map.of("class", found.getClass().getName(), "text", text(found));
        }
        System.out.println(JSON.writeValueAsString(answer));
        System.out.flush();
        System.exit(0);
    }

    static Properties settings(JsonNode request) throws Exception {
        Properties found = new Properties();
        found.put("bootstrap.servers", request.get("bootstrap").asText());
        found.put("security.protocol", request.get("protocol").asText());
        if (request.has("ca")) {
            found.put("ssl.truststore.type", "PEM");
            found.put("ssl.truststore.location", request.get("ca").asText());
        }
        if (request.has("certificate")) {
            found.put("ssl.keystore.type", "PEM");
            found.put("ssl.keystore.location", request.get("certificate").asText());
        }
        if (request.has("mechanism")) {
            authenticate(request, request.get("mechanism").asText(), found);
        }
        return found;
    }

    static void authenticate(JsonNode request, String mechanism, Properties found) throws Exception {
        found.put("sasl.mechanism", mechanism);
        switch (mechanism) {
            case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512" -> {
                String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
                found.put("sasl.jaas.config", String.format(
                    "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
                    module, request.get("username").asText(), request.get("password").asText()));
            }
            case "OAUTHBEARER" -> {
                Path token = Files.createTempFile("token", ".jwt");
                token.toFile().deleteOnExit();
                Files.writeString(token, request.get("token").asText());
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", token.toUri().toString());
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", token.toString());
                found.put("sasl.oauthbearer.token.endpoint.url", token.toUri().toString());
                found.put("sasl.login.callback.handler.class",
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler");
                found.put("sasl.jaas.config",
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;");
            }
            case "GSSAPI" -> {
                System.setProperty("java.security.krb5.conf", request.get("krb5_config").asText());
                found.put("sasl.kerberos.service.name", "kafka");
                found.put("sasl.jaas.config", String.format(
                    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
                        + " keyTab=\"%s\" principal=\"%s\";",
                    request.get("keytab").asText(), request.get("principal").asText()));
            }
            default -> throw new IllegalArgumentException(mechanism);
        }
    }

    static void produce(JsonNode request, Properties settings) throws Exception {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("key.serializer", StringSerializer.class.getName());
        own.put("value.serializer", StringSerializer.class.getName());
        own.put("max.block.ms", "60000");
        List<String> values = new ArrayList<>();
        request.get("values").forEach(value -> values.add(value.asText()));
        long pauseMs = (long) (request.get("seconds").asDouble() * 1000 / values.size());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(own)) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(request.get("topic").asText(), value)).get();
                Thread.sleep(pauseMs);
            }
        }
    }

    static List<String> consume(JsonNode request, Properties settings) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("key.deserializer", StringDeserializer.class.getName());
        own.put("value.deserializer", StringDeserializer.class.getName());
        List<String> values = new ArrayList<>();
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        long endMs = System.currentTimeMillis() + 30_000;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(own)) {
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            while (values.size() < request.get("values").size() && System.currentTimeMillis() < endMs) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    static String text(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : ": ").append(each.getMessage());
        }
        return text.toString();
    }
}
