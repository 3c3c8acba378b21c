package message_test

import (
	"encoding"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/mskbridge/mskbridge/internal/message"
)

var _ encoding.TextAppender = message.ID{}

func ExampleID() {
	id := message.ID{
		Cluster:     "msk",
		Topic:       "orders",
		TopicID:     [16]byte{0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		Partition:   3,
		LeaderEpoch: 17,
		Offset:      123456,
	}
	fmt.Println(id)
	id.TopicID = [16]byte{} // an old broker
	id.LeaderEpoch = -1
	fmt.Println(id)
	// Output:
	// v1/msk/orders/3q2-7wABAgMEBQYHCAkKCw/3/17/123456
	// v1/msk/orders/-/3/-1/123456
}

// TestIDGolden pins the form: a changed line would be a changed key of every
// record ever published.
func TestIDGolden(t *testing.T) {
	all := [16]byte{}
	for i := range all {
		all[i] = 0xff
	}
	ids := []message.ID{
		{Cluster: "msk", Topic: "orders", TopicID: [16]byte{0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Partition: 3, LeaderEpoch: 17, Offset: 123456},
		{Cluster: "msk", Topic: "orders", Partition: 0, LeaderEpoch: -1, Offset: 0},
		{Cluster: "a", Topic: "T", TopicID: all, Partition: math.MaxInt32, LeaderEpoch: math.MaxInt32, Offset: math.MaxInt64},
		{Cluster: "eu-1", Topic: "a.b_c-D", TopicID: [16]byte{15: 1}, Partition: 1, LeaderEpoch: 0, Offset: 10},
		{Cluster: strings.Repeat("c", 63), Topic: strings.Repeat("t", 249), TopicID: [16]byte{1}, Partition: 10, LeaderEpoch: 9, Offset: 8},
	}
	golden, err := os.ReadFile("testdata/id.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(golden), "\n"), "\n")
	if len(lines) != len(ids) {
		t.Fatalf("golden file has %d lines, want %d", len(lines), len(ids))
	}
	for i, id := range ids {
		if got := id.String(); got != lines[i] {
			t.Errorf("id %d:\n got %s\nwant %s", i, got, lines[i])
		}
		back, err := message.ParseID(lines[i])
		if err != nil || back != id {
			t.Errorf("ParseID(%s) = %+v, %v; want %+v", lines[i], back, err, id)
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	tests := map[string]string{
		"empty":                    "",
		"other version":            "v2/msk/orders/-/3/17/1",
		"missing part":             "v1/msk/orders/-/3/17",
		"extra part":               "v1/msk/orders/-/3/17/1/",
		"empty cluster":            "v1//orders/-/3/17/1",
		"upper-case cluster":       "v1/Msk/orders/-/3/17/1",
		"long cluster":             "v1/" + strings.Repeat("c", 64) + "/orders/-/3/17/1",
		"empty topic":              "v1/msk//-/3/17/1",
		"illegal topic":            "v1/msk/or ders/-/3/17/1",
		"long topic":               "v1/msk/" + strings.Repeat("t", 250) + "/-/3/17/1",
		"empty topic id":           "v1/msk/orders//3/17/1",
		"short topic id":           "v1/msk/orders/3q2-7w/3/17/1",
		"zero topic id spelled":    "v1/msk/orders/AAAAAAAAAAAAAAAAAAAAAA/3/17/1",
		"stray bits in topic id":   "v1/msk/orders/3q2-7wABAgMEBQYHCAkKCx/3/17/1",
		"standard alphabet":        "v1/msk/orders/3q2+7wABAgMEBQYHCAkKCw/3/17/1",
		"line break in topic id":   "v1/msk/orders/3q2-7wABAgMEBQYHCAkKCw\n/3/17/1",
		"negative partition":       "v1/msk/orders/-/-1/17/1",
		"partition too big":        "v1/msk/orders/-/2147483648/17/1",
		"epoch below unknown":      "v1/msk/orders/-/3/-2/1",
		"negative record offset":   "v1/msk/orders/-/3/17/-1",
		"minus zero":               "v1/msk/orders/-/3/17/-0",
		"leading zero":             "v1/msk/orders/-/03/17/1",
		"plus sign":                "v1/msk/orders/-/3/+17/1",
		"record offset too big":    "v1/msk/orders/-/3/17/9223372036854775808",
		"no digits":                "v1/msk/orders/-/3/17/",
		"white space":              "v1/msk/orders/-/3/17/1 ",
		"underscore between digit": "v1/msk/orders/-/3/17/1_0",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if id, err := message.ParseID(text); err == nil {
				t.Errorf("ParseID(%q) = %+v, want an error", text, id)
			}
		})
	}
}

// FuzzID checks both directions: a legal ID reads back as itself, an illegal
// one is refused, and whatever is accepted has no second spelling.
func FuzzID(f *testing.F) {
	f.Add("msk", "orders", make([]byte, 16), int32(3), int32(17), int64(5), "v1/msk/orders/-/3/17/5")
	f.Add("a/b", "or/ders", []byte("0123456789abcdef"), int32(-1), int32(-2), int64(-3), "v1/msk/orders/MDEyMzQ1Njc4OWFiY2RlZg/3/-1/5")
	f.Fuzz(func(t *testing.T, cluster, topic string, topicID []byte, partition, epoch int32, offset int64, text string) {
		id := message.ID{Cluster: cluster, Topic: topic, Partition: partition, LeaderEpoch: epoch, Offset: offset}
		copy(id.TopicID[:], topicID)
		if b, err := id.AppendText([]byte("x")); err == nil {
			if string(b) != "x"+id.String() {
				t.Fatalf("AppendText = %q, String = %q", b, id)
			}
			if back, err := message.ParseID(id.String()); err != nil || back != id {
				t.Fatalf("ParseID(%q) = %+v, %v; want %+v", id, back, err, id)
			}
		} else if back, err := message.ParseID(id.String()); err == nil && back == id {
			t.Fatalf("%q is refused by AppendText and accepted by ParseID", id)
		}
		if parsed, err := message.ParseID(text); err == nil && parsed.String() != text {
			t.Fatalf("%q and %q are the same ID", text, parsed)
		}
	})
}
