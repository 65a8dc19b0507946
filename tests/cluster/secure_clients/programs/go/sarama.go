package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func (request Request) user() string {
	name, _, _ := strings.Cut(request.Principal, "@")
	return name
}

func (request Request) realm() string {
	_, realm, _ := strings.Cut(request.Principal, "@")
	return realm
}

type saramaScram struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (own *saramaScram) Begin(user, password, authzid string) error {
	client, err := own.hash.NewClient(user, password, authzid)
	if err == nil {
		own.conversation = client.NewConversation()
	}
	return err
}

func (own *saramaScram) Step(challenge string) (string, error) { return own.conversation.Step(challenge) }

func (own *saramaScram) Done() bool { return own.conversation.Done() }

type saramaToken string

func (token saramaToken) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

func saramaConfig(request Request) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_0_0_0
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 1
	config.Net.DialTimeout = 5 * time.Second
	if request.Protocol != "PLAINTEXT" {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, request.tls()
	}
	if request.Mechanism == "" {
		return config
	}
	own := &config.Net.SASL
	own.Enable, own.Mechanism = true, sarama.SASLMechanism(request.Mechanism)
	own.User, own.Password = request.Username, request.Password
	switch request.Mechanism {
	case "SCRAM-SHA-256":
		own.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{hash: scram.SHA256} }
	case "SCRAM-SHA-512":
		own.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{hash: scram.SHA512} }
	case "OAUTHBEARER":
		own.TokenProvider = saramaToken(request.Token)
	case "GSSAPI":
		own.GSSAPI = sarama.GSSAPIConfig{
			AuthType:           sarama.KRB5_KEYTAB_AUTH,
			KeyTabPath:         request.Keytab,
			KerberosConfigPath: request.Krb5Config,
			ServiceName:        "kafka",
			Username:           request.user(),
			Realm:              request.realm(),
		}
	}
	return config
}

func useSarama(request Request) ([]string, error) {
	client, err := sarama.NewClient([]string{request.Bootstrap}, saramaConfig(request))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	for _, value := range request.Values {
		message := &sarama.ProducerMessage{Topic: request.Topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return nil, err
		}
		time.Sleep(request.pause())
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(request.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	end := time.After(limit)
	var values []string
	for len(values) < len(request.Values) {
		select {
		case message := <-partition.Messages():
			values = append(values, string(message.Value))
		case <-end:
			return nil, fmt.Errorf("consumed only %d records", len(values))
		}
	}
	return values, nil
}
