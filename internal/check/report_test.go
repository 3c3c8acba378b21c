package check

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func sample() *Report {
	r := &Report{}
	r.Add("kafka", "broker b-1:9098", OK, "connected in 3ms", "")
	r.Add("kafka", "topic orders", Fail, "does not\nexist \x1b[31m", "create it")
	r.Add("pub/sub", "topic <orders>", Warn, "has no subscription", "create one")
	r.Add("pub/sub", "clock", Unknown, "not verifiable", "")
	return r
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sample().JSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/report.json", b.String())
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Table(&b, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/report.txt", b.String())
	if strings.Contains(b.String(), "\x1b") {
		t.Error("what a server said reaches the terminal as it is")
	}
	b.Reset()
	if err := sample().Table(&b, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[1;31mfail   \x1b[0m  topic orders") {
		t.Errorf("no colour in %q", b.String())
	}
}

// golden compares with a file that holds the contract.
func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant, as in %s,\n%s", got, file, want)
	}
}

func TestCode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rows   []Status
		code   int
		result Status
	}{
		{"nothing", nil, 0, OK},
		{"warnings and what is not verifiable are allowed", []Status{OK, Warn, Unknown}, 0, OK},
		{"what matters is not known", []Status{OK, Unclear, Warn}, 3, Unclear},
		{"what breaks wins", []Status{Unclear, Fail}, 1, Fail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Report
			for _, s := range tt.rows {
				r.Add("s", "w", s, "f", "")
			}
			if r.Code() != tt.code || r.Result() != tt.result {
				t.Errorf("%d %s, want %d %s", r.Code(), r.Result(), tt.code, tt.result)
			}
		})
	}
}
