package config

import (
	"log/slog"
	"time"
)

// Settings are the process-wide settings as the environment gives them: one
// field for each name of the contract. Lists are comma separated. The tags are
// the single source of names, defaults, choices and of the README's table.
//
// A program that is not configured by its environment, such as the demo, calls
// Read, changes fields and hands the result to New.
type Settings struct {
	// Brokers are host:port pairs; one that answers is enough.
	Brokers []string `envconfig:"BRIDGE_BROKERS" unset:"required" desc:"bootstrap brokers, comma separated host:port"`
	// Topics are "topic" or "topic=destination"; see Route for the rest.
	Topics []string `envconfig:"BRIDGE_TOPICS" unset:"this or BRIDGE_ROUTES_FILE" desc:"topics to bridge, for example orders,payments=pay-events"`
	// RoutesFile is the path of a YAML file of at most 1 MiB.
	RoutesFile string `envconfig:"BRIDGE_ROUTES_FILE" unset:"this or BRIDGE_TOPICS" desc:"YAML file with the routes"`
	// Cluster is part of every idempotency key: changing it changes every key.
	Cluster string `envconfig:"BRIDGE_CLUSTER" default:"msk" desc:"alias of the cluster in the idempotency key, 1 to 63 of a-z, 0-9 and -; changing it changes every key"`
	// Group is shared by all instances that split the topics between them.
	Group string `envconfig:"BRIDGE_GROUP" default:"mskbridge" desc:"Kafka consumer group"`
	// Project is empty until ResolveProject ran when neither variable is set.
	Project string `envconfig:"BRIDGE_PROJECT" unset:"GOOGLE_CLOUD_PROJECT, else the metadata server" desc:"project of Pub/Sub topics that are not full names"`
	// DeadLetterTopic is a topic id or projects/P/topics/T.
	DeadLetterTopic string `envconfig:"BRIDGE_DEAD_LETTER_TOPIC" unset:"none" desc:"default dead-letter topic; without one a record that Pub/Sub can never take holds its route"`
	// Dataset is DATASET or PROJECT.DATASET, the project else being Project.
	Dataset string `envconfig:"BRIDGE_DATASET" unset:"none; sql and audit take kafka" desc:"BigQuery dataset of the routes' tables, DATASET or PROJECT.DATASET: default of sql and audit; check looks at it"`

	// Auth says how to speak to the brokers; everything but plaintext is TLS.
	Auth string `envconfig:"BRIDGE_AUTH" default:"iam" oneof:"iam,iam-oauth,scram,mtls,tls,plaintext" desc:"authentication to the brokers"`
	// RoleARN is the AWS role that auth iam and iam-oauth assume.
	RoleARN string `envconfig:"BRIDGE_ROLE_ARN" unset:"none" desc:"AWS role to assume with the service account's ID token"`
	// RoleAudience is what the trust policy of the role pins as oaud.
	RoleAudience string `envconfig:"BRIDGE_ROLE_AUDIENCE" default:"sts.amazonaws.com" desc:"audience of the ID token, which the role's trust policy pins as oaud"`
	// Region is the AWS region of the cluster.
	Region string `envconfig:"BRIDGE_REGION" unset:"from the broker's name, else AWS_REGION" desc:"AWS region of the cluster"`
	// ScramUser, ScramPassword, ScramPasswordFile and ScramMechanism belong to auth scram.
	ScramUser         string `envconfig:"BRIDGE_SCRAM_USER" unset:"none" desc:"SCRAM user"`
	ScramPassword     Secret `envconfig:"BRIDGE_SCRAM_PASSWORD" unset:"none" desc:"SCRAM password; never printed"`
	ScramPasswordFile string `envconfig:"BRIDGE_SCRAM_PASSWORD_FILE" unset:"none" desc:"file that holds the SCRAM password"`
	ScramMechanism    string `envconfig:"BRIDGE_SCRAM_MECHANISM" default:"sha-512" oneof:"sha-256,sha-512" desc:"SCRAM mechanism"`
	// TLSCAFile replaces the system's roots.
	TLSCAFile string `envconfig:"BRIDGE_TLS_CA_FILE" unset:"system roots" desc:"PEM file with the only authorities to trust for brokers"`
	// TLSCertFile and TLSKeyFile belong to auth mtls.
	TLSCertFile string `envconfig:"BRIDGE_TLS_CERT_FILE" unset:"none" desc:"PEM client certificate chain"`
	TLSKeyFile  string `envconfig:"BRIDGE_TLS_KEY_FILE" unset:"none" desc:"PEM key of the client certificate"`
	// TLSServerName replaces the broker's host name in verification.
	TLSServerName string `envconfig:"BRIDGE_TLS_SERVER_NAME" unset:"the broker's name" desc:"name that the brokers' certificates must carry, for brokers reached under another name"`
	// AllowPlaintext lifts the rule that plaintext is for loopback only.
	AllowPlaintext bool `envconfig:"BRIDGE_ALLOW_PLAINTEXT" default:"false" desc:"allow plaintext to brokers that are not loopback"`
	// DialAllow bounds which advertised brokers are dialled.
	DialAllow []string `envconfig:"BRIDGE_DIAL_ALLOW" unset:"any" desc:"suffixes and CIDRs that advertised brokers must match"`
	// SessionTimeout is 6 s to 30 min, what brokers accept by default.
	SessionTimeout time.Duration `envconfig:"BRIDGE_SESSION_TIMEOUT" default:"20s" desc:"how long the group waits for a silent instance, 6s to 30m"`

	// PubSubEndpoint is host or host:port; port 443 is the default.
	PubSubEndpoint string `envconfig:"BRIDGE_PUBSUB_ENDPOINT" unset:"global" desc:"regional Pub/Sub endpoint, advised for ordered routes, for example us-central1-pubsub.googleapis.com:443"`
	// PublishConnections is 1 to 64. Across clouds a connection carries one
	// HTTP/2 window per round trip, so this bounds the rate.
	PublishConnections int `envconfig:"BRIDGE_PUBLISH_CONNECTIONS" default:"4" desc:"gRPC connections to Pub/Sub, 1 to 64"`
	// Memory is what the process may use in all; 0 stands for the container's
	// limit. Sizes are derived from it.
	Memory Bytes `envconfig:"BRIDGE_MEMORY" unset:"container limit, else 512 MiB" desc:"memory of the process, for example 256MiB, at least 48MiB; every buffer size is derived from it"`
	// Profile trades latency against requests.
	Profile string `envconfig:"BRIDGE_PROFILE" default:"balanced" oneof:"latency,balanced,cost" desc:"what to optimise"`
	// LogLevel is the least level that is written.
	LogLevel slog.Level `envconfig:"BRIDGE_LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`

	// Port serves health, metrics and status. 0 takes a free one.
	Port uint16 `envconfig:"PORT" default:"8080" desc:"port of health, metrics and status; Cloud Run sets it"`
	// EmulatorHost is a Pub/Sub spoken to in plaintext without credentials.
	EmulatorHost string `envconfig:"PUBSUB_EMULATOR_HOST" unset:"none" desc:"host:port of a Pub/Sub emulator"`
	// BigQueryEmulator is a server of BigQuery's API spoken to in plaintext
	// without credentials.
	BigQueryEmulator string `envconfig:"BIGQUERY_EMULATOR_HOST" unset:"none" desc:"host:port of a BigQuery emulator"`
	// AWSRegion is what AWS's own tools read.
	AWSRegion string `envconfig:"AWS_REGION" unset:"none" desc:"region when BRIDGE_REGION is not set and the brokers' names have none"`
	// CloudProject is what Google's own tools set.
	CloudProject string `envconfig:"GOOGLE_CLOUD_PROJECT" unset:"none" desc:"project when BRIDGE_PROJECT is not set"`
}
