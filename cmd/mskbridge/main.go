// Command mskbridge pulls Kafka topics, publishes every record to Google
// Pub/Sub with an idempotency key, and commits an offset only after Pub/Sub
// acknowledged the publish.
package main

import (
	"os"

	// CA roots travel with the binary: its image has nothing else.
	_ "golang.org/x/crypto/x509roots/fallback"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }
