package warehouse

import (
	"regexp"
	"strings"
	"testing"
)

func TestStem(t *testing.T) {
	long := strings.Repeat("a.", 124) + "a"
	tests := []struct{ topic, want string }{
		{"orders", "orders"},
		{"pay_events", "pay_events"},
		{"a.b", "a__b"},
		{"a-b", "a___b"},
		{"a_b", "a_b"},
		{"a__b", "a____uu____b"},
		{"a..b", "a____dd____b"},
		{"__consumer_offsets", "____uu____consumer_offsets"},
		{"Orders.V2-eu", "Orders__V2___eu"},
	}
	for _, test := range tests {
		if got := Stem(test.topic); got != test.want {
			t.Errorf("%s: %s, want %s", test.topic, got, test.want)
		}
	}
	if got := Stem(long); len(got) > mostStem || !strings.Contains(got, "_____") {
		t.Errorf("long topic: %s", got)
	}
}

// TestSuffixesCannotBeConfused is what keeps the table of one topic from having
// the name of another topic's: a_b + log must not be a + b_log.
func TestSuffixesCannotBeConfused(t *testing.T) {
	for _, a := range suffixes() {
		for _, b := range suffixes() {
			if strings.HasSuffix(a, "_"+b) {
				t.Errorf("%s ends like %s", a, b)
			}
		}
	}
}

var legalName = regexp.MustCompile(`^[A-Za-z0-9_]{1,256}$`)

// FuzzStem looks for two topics, or two objects of them, with one name.
func FuzzStem(f *testing.F) {
	f.Add("a.b", "a_b")
	f.Add("a-b", "a__b")
	f.Add("a.-b", "a-.b")
	f.Add("a____dd____b", "a..b")
	f.Add("a_", "a.")
	f.Add("orders", "orders_raw")
	f.Add(strings.Repeat("a.", 120), strings.Repeat("a.", 119)+"a-")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !topicName.MatchString(a) || !topicName.MatchString(b) || a == b {
			return
		}
		names := make(map[string]string)
		for _, topic := range []string{a, b} {
			for _, suffix := range suffixes() {
				name := Stem(topic) + "_" + suffix
				if !legalName.MatchString(name) {
					t.Fatalf("%q gives %q, which is no name of a procedure", topic, name)
				}
				if first, ok := names[name]; ok {
					t.Fatalf("%q and %q share %s", first, topic, name)
				}
				names[name] = topic
			}
		}
	})
}

// TestShortTopicsAreApart tries all names of a small alphabet against each other.
func TestShortTopicsAreApart(t *testing.T) {
	const alphabet = "au_.-"
	seen := make(map[string]string)
	var try func(string)
	try = func(topic string) {
		if topic != "" {
			stem := Stem(topic)
			if first, ok := seen[stem]; ok {
				t.Fatalf("%q and %q share %s", first, topic, stem)
			}
			seen[stem] = topic
		}
		if len(topic) == 7 {
			return
		}
		for i := range alphabet {
			try(topic + alphabet[i:i+1])
		}
	}
	try("")
}
