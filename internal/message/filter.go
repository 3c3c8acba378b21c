package message

import "strings"

// HeaderFilter chooses which record headers are sent. What it leaves out is an
// operator's choice and counts nowhere: kafka_headers_dropped is about headers
// that could not be carried. W3C trace context is a header like any other. It
// is never written, hence safe for concurrent use.
type HeaderFilter struct{ allow, deny []string }

// NewHeaderFilter returns the filter that keeps the names that match allow, or
// all when it is empty, and do not match deny. In a pattern * stands for any
// run of bytes, also none and also with /; all else is literal, and case counts.
// Without any pattern it returns nil, which keeps all.
func NewHeaderFilter(allow, deny []string) *HeaderFilter {
	if len(allow) == 0 && len(deny) == 0 {
		return nil
	}
	return &HeaderFilter{allow: allow, deny: deny}
}

// appendKept appends those of hs that are sent.
func (f *HeaderFilter) appendKept(kept, hs []Header) []Header {
	for i := range hs {
		if name := hs[i].Name; (len(f.allow) == 0 || matchesAny(f.allow, name)) && !matchesAny(f.deny, name) {
			kept = append(kept, hs[i])
		}
	}
	return kept
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// matches takes the leftmost place for each literal between two stars, which
// finds a match where there is one. What follows the last star has to end name.
func matches(pattern, name string) bool {
	literal, pattern, star := strings.Cut(pattern, "*")
	if !star {
		return literal == name
	}
	name, ok := strings.CutPrefix(name, literal)
	for ok {
		if literal, pattern, star = strings.Cut(pattern, "*"); !star {
			return strings.HasSuffix(name, literal)
		}
		_, name, ok = strings.Cut(name, literal)
	}
	return false
}
