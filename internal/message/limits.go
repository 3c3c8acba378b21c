package message

// Limits of Pub/Sub, in bytes unless said otherwise. Source: Pub/Sub quotas
// page and the constants of Google's Go client, November 2026.
const (
	// MaxRequest bounds one encoded PublishRequest: destination, framing,
	// attributes and ordering keys included.
	MaxRequest = 10_000_000
	// MaxMessages is the number of messages in one request.
	MaxMessages = 1000
	// MaxAttributes is the number of attributes of one message.
	MaxAttributes = 100
	// MaxAttributeName and MaxAttributeValue bound one attribute.
	MaxAttributeName  = 256
	MaxAttributeValue = 1024
	// MaxOrderingKey bounds the ordering key.
	MaxOrderingKey = 1024
)
