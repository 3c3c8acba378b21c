package config

// Values of settings and route fields that other packages compare with.
const (
	AuthIAM           = "iam"
	AuthIAMOAuth      = "iam-oauth"
	AuthScram         = "scram"
	AuthMTLS          = "mtls"
	AuthTLS           = "tls"
	AuthPlaintext     = "plaintext"
	ScramSHA256       = "sha-256"
	ScramSHA512       = "sha-512"
	OrderingNone      = "none"
	OrderingPartition = "partition"
	OrderingKey       = "key"
	OnPoisonPark      = "park"
	OnPoisonHold      = "hold"
	OnOversizePark    = "park"
	OnOversizeHold    = "hold"
	OnOversizeStore   = "store"
	FormatRaw         = "raw"
	FormatEnvelope    = "envelope"
	ValueBytes        = "bytes"
	ValueJSON         = "json"
	StartEarliest     = "earliest"
	StartLatest       = "latest"
)

// Route is one Kafka topic and where its records go. In a checked Config every
// field is resolved: the route's own value, else the routes file's defaults,
// else the environment, else the default of the tag.
//
// Several routes may share a destination: the identity and the attribute
// kafka_topic keep their records apart, and Pub/Sub does not care.
type Route struct {
	// Topic is the Kafka topic. It names the route everywhere.
	Topic string `yaml:"topic" unset:"required" desc:"Kafka topic"`
	// Destination is projects/P/topics/T once the project is known.
	Destination  string `yaml:"to,omitempty" unset:"the Kafka name" desc:"Pub/Sub topic id, or projects/P/topics/T; needed where Pub/Sub does not allow the Kafka name"`
	RouteOptions `yaml:",inline"`
	// Skip are ranges that an operator gave up on purpose.
	Skip []Skip `yaml:"skip,omitempty" unset:"none" desc:"offsets to leave out, a list of {partition, from, to}, to being the next that is published; recorded on the dead-letter topic"`

	place string // "routes.yaml:12", for messages
}

// RouteOptions are the fields that the routes file's defaults may set as well.
type RouteOptions struct {
	// DeadLetter is a topic id or a full name, as Destination is; "" for none.
	DeadLetter string `yaml:"dead_letter,omitempty" unset:"BRIDGE_DEAD_LETTER_TOPIC" desc:"dead-letter topic of this route"`
	// Ordering partition keeps one request in flight for each partition, key one
	// for each key of a partition.
	Ordering string `yaml:"ordering,omitempty" default:"none" oneof:"none,partition,key" desc:"order that Pub/Sub keeps"`
	// OnPoison is hold in a checked Config when there is no dead-letter topic.
	OnPoison string `yaml:"on_poison,omitempty" default:"park" oneof:"park,hold" desc:"a record that Pub/Sub refuses goes to the dead-letter topic, or holds the route"`
	// OnOversize is about records that no Pub/Sub request can carry. Park becomes
	// hold in a checked Config when there is no dead-letter topic.
	OnOversize string `yaml:"on_oversize,omitempty" default:"park" oneof:"park,hold,store" desc:"a record over Pub/Sub's 10 MB goes to the dead-letter topic, holds the route, or leaves its value in the store"`
	// Format says what the data of a message is. An envelope is what a BigQuery
	// subscription with use_table_schema reads.
	Format string `yaml:"format,omitempty" default:"raw" oneof:"raw,envelope" desc:"message data: the record's value byte for byte, or a JSON object with the columns of the raw table"`
	// Value is the form of the value inside an envelope, and only there.
	Value string `yaml:"value,omitempty" default:"bytes" oneof:"bytes,json" desc:"the value inside an envelope: base64, or JSON, where what is not JSON goes the way of on_poison"`
	// Store is where on_oversize: store puts values.
	Store string `yaml:"store,omitempty" unset:"none" desc:"where on_oversize store puts values: gs://bucket/prefix, s3://bucket/prefix?region=R or file:///folder"`
	// Start counts only while the group has no commit for the topic.
	Start string `yaml:"start,omitempty" default:"earliest" desc:"where a group without commits begins: earliest, latest or an RFC 3339 time"`
	// Headers choose which record headers are sent.
	Headers *Headers `yaml:"headers,omitempty" unset:"all" desc:"record headers to send, {allow: [...], deny: [...]}: names in which * stands for anything; deny beats allow"`
}

// Headers are patterns of header names.
type Headers struct {
	Allow []string `yaml:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty"`
}

// Skip is a range of offsets of one partition, From first, To next.
type Skip struct {
	Partition int32 `yaml:"partition"`
	From      int64 `yaml:"from"`
	To        int64 `yaml:"to"`
}
