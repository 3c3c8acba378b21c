package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "gocloud.dev/blob/memblob"
	"google.golang.org/api/option"

	"github.com/mskbridge/mskbridge/internal/fault"
)

const key = "v1/msk/orders/AQAAAAAAAAAAAAAAAAAAAA/3/5/7"

func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// cloud is a Cloud Storage that knows one bucket.
type cloud struct {
	answer func(*http.Request) int // 0: it works

	mu      sync.Mutex // guards what follows
	objects map[string]object
	writes  int
}

type object struct {
	Name     string            `json:"name"`
	Size     string            `json:"size"`
	Crc32c   string            `json:"crc32c"`
	Metadata map[string]string `json:"metadata"`
	value    []byte
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		if code := c.answer(r); code != 0 {
			http.Error(w, "{}", code)
			return
		}
	}
	if r.Method == http.MethodGet {
		o, ok := c.objects[strings.TrimPrefix(r.URL.Path, "/b/bucket/o/")]
		if !ok {
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(o)
		return
	}
	c.writes++
	_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	parts := multipart.NewReader(r.Body, params["boundary"])
	var o object
	for i := range 2 {
		part, err := parts.NextPart()
		if err != nil {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
		b, _ := io.ReadAll(part)
		if i == 0 {
			_ = json.Unmarshal(b, &o)
		} else {
			o.value = b
			o.Size = json.Number(itoa(len(b))).String()
		}
	}
	if _, there := c.objects[o.Name]; there && r.URL.Query().Get("ifGenerationMatch") == "0" {
		http.Error(w, "{}", http.StatusPreconditionFailed)
		return
	}
	if c.objects == nil {
		c.objects = map[string]object{}
	}
	c.objects[o.Name] = o
	_ = json.NewEncoder(w).Encode(o)
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// onCloud is a store at gs://bucket/some/prefix on c.
func onCloud(t *testing.T, c *cloud) *Store {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	b, err := openGCS(t.Context(), "bucket", option.WithEndpoint(server.URL), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	return &Store{bucket: b, base: "gs://bucket/", prefix: "some/prefix/"}
}

func TestPut(t *testing.T) {
	folder := t.TempDir()
	c := &cloud{}
	tests := []struct {
		name  string
		store *Store
		url   string
		read  func() []byte
	}{
		{"memory", open(t, "mem://"), "mem:///" + key, nil},
		{"memory with a prefix", open(t, "mem://bucket/a/b/"), "mem://bucket/a/b/" + key, nil},
		{"folder", open(t, "file://"+folder), "file://" + folder + "/" + key, func() []byte {
			b, _ := os.ReadFile(filepath.Join(folder, key))
			return b
		}},
		{"Cloud Storage", onCloud(t, c), "gs://bucket/some/prefix/" + key, func() []byte { return c.objects["some/prefix/"+key].value }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value := bytes.Repeat([]byte("0123456789abcdef"), 700_000) // 11 MB
			for range 2 {                                              // the second finds the first
				url, err := tt.store.Put(t.Context(), key, value, sha256.Sum256(value))
				if err != nil || url != tt.url {
					t.Fatalf("Put = %q, %v, want %q", url, err, tt.url)
				}
			}
			if tt.read != nil && !bytes.Equal(tt.read(), value) {
				t.Error("what lies there is not the value")
			}
			// An object that is something else is left alone.
			other := append(bytes.Clone(value[1:]), '!')
			_, err := tt.store.Put(t.Context(), key, other, sha256.Sum256(other))
			if o, ok := errors.AsType[*fault.OperatorError](err); !ok || !strings.HasPrefix(o.Advice, "remove "+tt.url) {
				t.Errorf("another value under the same name: %v", err)
			}
			if tt.read != nil && !bytes.Equal(tt.read(), value) {
				t.Error("the object was replaced")
			}
		})
	}
	if c.writes != 1 {
		t.Errorf("Cloud Storage was written to %d times, want once", c.writes)
	}
	o := c.objects["some/prefix/"+key]
	sum := sha256.Sum256(o.value)
	if o.Crc32c == "" || o.Metadata["sha256"] != hex.EncodeToString(sum[:]) {
		t.Errorf("checksum %q, metadata %v", o.Crc32c, o.Metadata)
	}
}

func TestCloudStorageErrors(t *testing.T) {
	post := func(code int) func(*http.Request) int {
		return func(r *http.Request) int {
			if r.Method == http.MethodPost {
				return code
			}
			return 0
		}
	}
	tests := []struct {
		name   string
		answer func(*http.Request) int
		advice string // "": it is tried again
	}{
		{"no bucket", post(http.StatusNotFound), "create bucket bucket"},
		{"may not write", post(http.StatusForbidden), "let the bridge write and read objects of bucket bucket (roles/storage.objectUser)"},
		{"may not read", func(*http.Request) int { return http.StatusForbidden }, "let the bridge write and read objects of bucket bucket (roles/storage.objectUser)"},
		{"refused", post(http.StatusBadRequest), "see what Cloud Storage has against the object"},
		{"busy", post(http.StatusTooManyRequests), ""},
		{"broken", post(http.StatusInternalServerError), ""},
		{"somebody wrote it in between, and it is gone", post(http.StatusPreconditionFailed), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			cancel()
			c := &cloud{answer: tt.answer}
			s := onCloud(t, c)
			value := []byte("value")
			_, err := s.Put(t.Context(), key, value, sha256.Sum256(value))
			o, operator := errors.AsType[*fault.OperatorError](err)
			if err == nil || operator != (tt.advice != "") || operator && o.Advice != tt.advice {
				t.Errorf("error %v, want advice %q", err, tt.advice)
			}
			if _, err := s.Put(ctx, key, value, sha256.Sum256(value)); err == nil {
				t.Error("no error although the context has ended")
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, address := range []string{"ftp://bucket", "file://" + filepath.Join(t.TempDir(), "missing"), "gs://\x00"} {
		if _, err := Open(t.Context(), address); err == nil {
			t.Errorf("%q was opened", address)
		}
	}
}

func TestFolderWithoutPermission(t *testing.T) {
	folder := t.TempDir()
	s := open(t, "file://"+folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o400); err != nil { // not a folder any more
		t.Fatal(err)
	}
	value := []byte("value")
	if _, err := s.Put(t.Context(), key, value, sha256.Sum256(value)); err == nil {
		t.Error("no error")
	}
}
