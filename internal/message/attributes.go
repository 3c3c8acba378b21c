package message

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// Names of the attributes of a published message. They are a contract: the SQL
// that deduplicates in the warehouse reads them.
const (
	AttrIdempotencyKey = "idempotency_key"    // text form of the ID
	AttrTopic          = "kafka_topic"        // text
	AttrPartition      = "kafka_partition"    // decimal
	AttrOffset         = "kafka_offset"       // decimal
	AttrTimestamp      = "kafka_timestamp_ms" // decimal epoch milliseconds; absent when Kafka has none
	AttrKey            = "kafka_key"          // absent for a null key, empty for an empty one
	AttrKeyEncoding    = "kafka_key_encoding" // KeyBase64 or KeySHA256; absent when the key is plain text
	AttrTombstone      = "kafka_tombstone"    // "true" for a null value, else absent
	AttrGap            = "kafka_offset_gap"   // decimal count of holes just before; absent for none
	AttrHeaderPrefix   = "kafka_header_"      // followed by the header's name
	AttrHeadersJSON    = "kafka_headers_json" // headers that are no attribute of their own
	AttrHeadersDropped = "kafka_headers_dropped"
	// AttrTraceparent is where Google's client looks for W3C trace context, and
	// the only name with the reserved prefix goog that is ever sent.
	AttrTraceparent = "googclient_traceparent"
)

// Names of the attributes of a message whose value lies elsewhere, since no
// request could carry it: a claim check. Its data is empty.
const (
	AttrValueSHA256 = "kafka_value_sha256" // of the value, lower-case hex
	AttrValueSize   = "kafka_value_size"   // of the value, in bytes
	AttrValueURL    = "kafka_value_url"    // where it lies: gs://bucket/prefix/key
)

// Names of the attributes that a parked message has besides.
const (
	AttrParkedDestination = "mskbridge_destination" // topic that the message was meant for
	AttrParkedDetail      = "mskbridge_detail"      // one clause for people
	AttrParkedReason      = "mskbridge_reason"      // a Reason
	AttrParkedSHA256      = "mskbridge_sha256"      // of what was its data, lower-case hex
	AttrParkedSize        = "mskbridge_size"        // of what was its data, in bytes
)

// Values of AttrKeyEncoding.
const (
	KeyBase64 = "base64" // standard alphabet, padded
	KeySHA256 = "sha256" // lower-case hex of the hash of a key too long to carry
)

// isText reports whether b is valid UTF-8 without U+0000, which is what an
// attribute and a JSON string may hold. ASCII, the usual case, goes eight bytes
// at a time: taking 1 from each byte sets a top bit where a byte was 0, unless
// one was set before.
func isText(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if (w|(w-ones))&tops != 0 {
			return utf8.Valid(b[i:]) && bytes.IndexByte(b[i:], 0) < 0
		}
	}
	for ; i < len(b); i++ {
		if b[i]-1 >= utf8.RuneSelf-1 {
			return utf8.Valid(b[i:]) && bytes.IndexByte(b[i:], 0) < 0
		}
	}
	return true
}

// isTextString is isText for header names, which are short.
func isTextString(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// isTraceparent reports whether v is a W3C traceparent: two hex digits of
// version other than ff, a trace id and a parent id that are not all zero, two
// digits of flags; versions after 00 may go on behind another dash.
func isTraceparent(v []byte) bool {
	const length = 55
	if len(v) < length || v[2] != '-' || v[35] != '-' || v[52] != '-' {
		return false
	}
	if len(v) > length && (v[length] != '-' || string(v[:2]) == "00") {
		return false
	}
	return isHex(v[:2]) && string(v[:2]) != "ff" && isHex(v[53:length]) &&
		isHex(v[3:35]) && len(bytes.Trim(v[3:35], "0")) > 0 &&
		isHex(v[36:52]) && len(bytes.Trim(v[36:52], "0")) > 0
}

func isHex(v []byte) bool {
	return len(bytes.Trim(v, "0123456789abcdef")) == 0
}
