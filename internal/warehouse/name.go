package warehouse

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names of procedures and table functions have at most 256 letters, digits and
// underscores, and all objects of a route share one stem.
const (
	mostStem   = 200
	hashedHead = 150
)

// Stem returns the part of a table's name that stands for the topic. Letters,
// digits and single underscores stay, a dot is two underscores, a dash three:
//
//	orders -> orders    pay_events -> pay_events
//	a.b -> a__b         pay-events -> pay___events
//
// Runs of several of these characters are spelt out between four underscores
// ("a..b" -> "a____dd____b"), and a stem that would be too long is cut and ends
// in five and a hash. No two topics share a stem, nor any table: no ending of
// an object (suffixes) is the end of another behind an underscore.
func Stem(topic string) string {
	var b strings.Builder
	for i := 0; i < len(topic); {
		n := 0
		for i+n < len(topic) && strings.IndexByte("_.-", topic[i+n]) >= 0 {
			n++
		}
		switch run := topic[i : i+n]; {
		case n == 0:
			b.WriteByte(topic[i])
			i++
		case run == "_":
			b.WriteString("_")
		case run == ".":
			b.WriteString("__")
		case run == "-":
			b.WriteString("___")
		default:
			b.WriteString("____" + strings.NewReplacer("_", "u", ".", "d", "-", "h").Replace(run) + "____")
		}
		i += n
	}
	stem := b.String()
	if len(stem) <= mostStem {
		return stem
	}
	sum := sha256.Sum256([]byte(topic))
	return strings.TrimRight(stem[:hashedHead], "_") + "_____" + hex.EncodeToString(sum[:16])
}

// suffixes are the endings of all objects of a route.
func suffixes() []string {
	return []string{
		"raw", "parsed", "records", "rejects", "dedup", "dedup_between", "log", "incarnations", "merge_state",
		"merge", "current_rows", "current", "latest",
	}
}

// path returns the quoted name of an object. The Spec is checked, so nothing in
// it can end the quotes.
func (s Spec) path(suffix string) string {
	prefix := s.Dataset + "."
	if s.Project != "" {
		prefix = s.Project + "." + prefix
	}
	return "`" + prefix + Stem(s.Topic) + "_" + suffix + "`"
}

// label returns the topic as the value of a label: at most 63 of lower-case
// letters, digits, _ and -. It is for cost reports; several topics may share it.
func label(topic string) string {
	s := strings.ReplaceAll(strings.ToLower(topic), ".", "_")
	return s[:min(len(s), 63)]
}
