// franz-go and sarama, by the first argument: see client_programs.py for the request and the answer.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Request is what the client has to do.
type Request struct {
	Bootstrap   string
	Topic       string
	Values      []string
	Seconds     float64
	Protocol    string
	Mechanism   string
	Username    string
	Password    string
	Token       string
	CA          string
	Certificate string
	Principal   string
	Keytab      string
	Krb5Config  string `json:"krb5_config"`
}

const limit = 30 * time.Second

func (request Request) pause() time.Duration {
	return time.Duration(request.Seconds * float64(time.Second) / float64(len(request.Values)))
}

func (request Request) tls() *tls.Config {
	if request.Protocol == "PLAINTEXT" {
		return nil
	}
	pem, err := os.ReadFile(request.CA)
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if request.Certificate != "" {
		own, err := tls.LoadX509KeyPair(request.Certificate, request.Certificate)
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	var request Request
	check(json.NewDecoder(os.Stdin).Decode(&request))
	client := map[string]func(Request) ([]string, error){"franz-go": useFranz, "sarama": useSarama}[os.Args[1]]
	values, err := client(request)
	answer := map[string]any{"values": values}
	if err != nil {
		answer = map[string]any{"class": kind(err), "text": err.Error()}
	}
	check(json.NewEncoder(os.Stdout).Encode(answer))
}

// kind returns the type of the innermost error.
func kind(err error) string {
	for {
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			if inner := wrapper.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if inner := wrapper.Unwrap(); len(inner) > 0 {
				err = inner[len(inner)-1]
				continue
			}
		}
		return fmt.Sprintf("%T", err)
	}
}
