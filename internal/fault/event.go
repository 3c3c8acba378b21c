package fault

// Kind is the value of the log field "event" and of the metric label of the
// same name. Kinds are a contract: alerts are written against them.
type Kind string

// The kinds of events, in the order of a bridge's life.
const (
	ConfigRejected   Kind = "config_rejected"
	ColdStart        Kind = "cold_start"
	ZeroAssignment   Kind = "zero_assignment"
	ForeignMember    Kind = "foreign_member"
	PartitionsAdded  Kind = "partitions_added"
	TopicMissing     Kind = "topic_missing"
	TopicRecreated   Kind = "topic_recreated"
	Loss             Kind = "loss"
	Truncated        Kind = "truncated"
	PartitionBlocked Kind = "partition_blocked"
	AccessRefused    Kind = "access_refused"
	AccessGranted    Kind = "access_granted"
	RouteRetrying    Kind = "route_retrying"
	RouteHeld        Kind = "route_held"
	RouteReleased    Kind = "route_released"
	RecordParked     Kind = "record_parked"
	Reauthentication Kind = "reauthentication"
	Stopping         Kind = "stopping"
)

// Event is one thing that an operator should be able to find later. It never
// carries a payload, a key, a header or a secret. Fields that say nothing for
// a kind keep their zero value, Partition excepted: it is -1 there.
type Event struct {
	Kind      Kind
	Topic     string // Kafka topic, which names the route; "" for the process
	Partition int32  // -1 when the event is not about one partition
	First     int64  // first offset of the range [First, Next), if First < Next
	Next      int64
	Size      int64  // bytes, for record_parked
	Reason    string // one clause that says why and, where possible, what to do
	Err       error  // cause, safe to print
}
