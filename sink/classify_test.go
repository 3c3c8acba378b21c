package sink

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mskbridge/mskbridge/internal/fault"
)

func TestClassify(t *testing.T) {
	want := map[codes.Code]fault.Class{
		codes.Canceled:           fault.Retryable, // the server's: our own context lives
		codes.Unknown:            fault.Retryable,
		codes.InvalidArgument:    fault.Poison,
		codes.DeadlineExceeded:   fault.Retryable,
		codes.NotFound:           fault.Held,
		codes.AlreadyExists:      fault.Held,
		codes.PermissionDenied:   fault.Held,
		codes.ResourceExhausted:  fault.Retryable,
		codes.FailedPrecondition: fault.Held,
		codes.Aborted:            fault.Retryable,
		codes.OutOfRange:         fault.Held,
		codes.Unimplemented:      fault.Held,
		codes.Internal:           fault.Retryable,
		codes.Unavailable:        fault.Retryable,
		codes.DataLoss:           fault.Held,
		codes.Unauthenticated:    fault.Held,
	}
	for code := codes.OK + 1; code < 17; code++ {
		if got := classify(status.Error(code, "")); got != want[code] {
			t.Errorf("%s is %s, want %s", code, got, want[code])
		}
		if got := classify(fmt.Errorf("calling: %w", status.Error(code, ""))); got != want[code] {
			t.Errorf("wrapped %s is %s, want %s", code, got, want[code])
		}
	}
	for name, tt := range map[string]struct {
		err  error
		want fault.Class
	}{
		"code of the future":    {status.Error(99, ""), fault.Held},
		"ids":                   {&idsError{2, 1}, fault.Retryable},
		"no status":             {context.DeadlineExceeded, fault.Retryable},
		"malformed answer":      {status.Error(codes.Internal, errAnswer.Error()), fault.Retryable},
		"OK, which is no error": {status.Error(codes.OK, ""), fault.Retryable},
	} {
		if tt.err == nil {
			continue // status.Error of OK is nil
		}
		if got := classify(tt.err); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// No code lets the server's words through that it may have taken from a record.
func TestSafeText(t *testing.T) {
	for code := codes.OK + 1; code < 18; code++ {
		text := safeText(status.Error(code, "canary\n"+strings.Repeat("é", 400)))
		switch code {
		case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted,
			codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			if !strings.HasPrefix(text, code.String()+": canary ") || len(text) > 250 {
				t.Errorf("%s: %q", code, text)
			}
		default:
			if text != code.String() {
				t.Errorf("%s: %q", code, text)
			}
		}
	}
	if got := safeText(&idsError{want: 3, got: 2}); got != "answer has 2 message ids for 3 messages" {
		t.Errorf("got %q", got)
	}
	if got := safeText(context.Canceled); got != "Unknown" {
		t.Errorf("got %q", got)
	}
}
