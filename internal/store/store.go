// Package store puts values that no Pub/Sub request can carry into a bucket of
// Google Cloud Storage or S3, or into a folder.
//
// An object is written once and never replaced, under the name that the caller
// gives, and counts as written when the bucket itself says that it has it: its
// size, and the SHA-256 that it was written with. The content on its way is
// guarded by a checksum that the bucket checks. Values are not copied whole.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// sumName is the metadata of an object that holds the SHA-256 of its value, in
// lower-case hex.
const sumName = "sha256"

// Store is one bucket with a prefix. Safe for concurrent use.
type Store struct {
	bucket bucket
	base   string // of the addresses of objects, up to the prefix
	prefix string // of their names, "" or with a slash at its end
}

// bucket is what Put needs to know of a place for objects. Errors that need an
// operator say so.
type bucket interface {
	// stat returns size and SHA-256 of an object; ok says whether it is there.
	stat(ctx context.Context, name string) (size int64, sum string, ok bool, err error)
	// write makes an object, unless there is one of this name already.
	write(ctx context.Context, name string, value []byte, sum string) error
	close() error
}

// Open returns the store at gs://bucket/prefix, s3://bucket/prefix?region=R or
// file:///folder. It asks nobody; it fails when there are no credentials, or no
// such folder.
func Open(ctx context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parsing the address of the store: %w", err)
	}
	s := &Store{}
	if u.Scheme != "file" {
		if s.prefix = strings.Trim(u.Path, "/"); s.prefix != "" {
			s.prefix += "/"
		}
		u.Path = ""
	}
	s.base = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + "/"}).String()
	if u.Scheme == "gs" {
		s.bucket, err = openGCS(ctx, u.Host)
	} else {
		s.bucket, err = openBlob(ctx, u)
	}
	if err != nil {
		return nil, fmt.Errorf("opening store %s: %w", s.base, err)
	}
	return s, nil
}

// Put returns the address of the object name once the bucket has it with
// exactly this value, whose SHA-256 is sum. An error that needs an operator is a
// fault.OperatorError. What was begun may read value on after ctx ended.
func (s *Store) Put(ctx context.Context, name string, value []byte, sum [sha256.Size]byte) (string, error) {
	name = s.prefix + name
	want := hex.EncodeToString(sum[:])
	for written := false; ; written = true {
		size, found, ok, err := s.bucket.stat(ctx, name)
		switch {
		case err != nil:
			return "", fmt.Errorf("looking at the object: %w", err)
		case ok && size == int64(len(value)) && found == want:
			return s.base + name, nil
		case ok:
			return "", fault.Operator("remove "+s.base+name+", which is not the value of its record", fmt.Errorf("an object of %d bytes, want %d", size, len(value)))
		case written:
			return "", errors.New("looking at the object: written, but not there")
		}
		if err := s.bucket.write(ctx, name, value, want); err != nil {
			return "", fmt.Errorf("writing the object: %w", err)
		}
	}
}

// Close lets go of the connections.
func (s *Store) Close() error {
	if err := s.bucket.close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

// missing is what an operator can do about a bucket that is not there.
func missing(bucket string) string { return "create bucket " + bucket }

// denied is what an operator can do about a bucket that lets us do too little.
func denied(bucket, role string) string {
	return "let the bridge write and read objects of bucket " + bucket + " (" + role + ")"
}
