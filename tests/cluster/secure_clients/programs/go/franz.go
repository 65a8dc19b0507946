package main

import (
	"context"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func franzMechanism(request Request) sasl.Mechanism {
	switch request.Mechanism {
	case "PLAIN":
		return plain.Auth{User: request.Username, Pass: request.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: request.Username, Pass: request.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: request.Username, Pass: request.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: request.Token}.AsMechanism()
	default:
		settings, err := config.Load(request.Krb5Config)
		check(err)
		keys, err := keytab.Load(request.Keytab)
		check(err)
		user := client.NewWithKeytab(request.user(), request.realm(), keys, settings)
		return kerberos.Auth{Client: user, Service: "kafka"}.AsMechanismWithClose()
	}
}

func useFranz(request Request) ([]string, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(request.Bootstrap),
		kgo.DefaultProduceTopic(request.Topic),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{request.Topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.RetryTimeout(5 * time.Second),
		kgo.RequestRetries(2),
	}
	if config := request.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if request.Mechanism != "" {
		options = append(options, kgo.SASL(franzMechanism(request)))
	}
	kafka, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer kafka.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Duration(request.Seconds*float64(time.Second)))
	defer cancel()
	if err := kafka.Ping(ctx); err != nil {
		return nil, err
	}
	for _, value := range request.Values {
		if err := kafka.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return nil, err
		}
		time.Sleep(request.pause())
	}
	var values []string
	for len(values) < len(request.Values) {
		fetched := kafka.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, err
		}
		fetched.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}
