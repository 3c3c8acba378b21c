package sink

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
)

// Oversize says what becomes of a record that no request can carry.
type Oversize uint8

const (
	// ParkOversize parks it; without a dead-letter topic it holds its route.
	ParkOversize Oversize = iota
	// HoldOversize lets it hold its route.
	HoldOversize
	// StoreOversize puts its value into the Store, and publishes a claim to it.
	StoreOversize
)

// Store keeps values that no request can carry. It is declared here since a
// publication is its only caller; package store implements it.
type Store interface {
	// Put returns where the value lies, in at most 1,024 bytes, once the store
	// has confirmed that the object name holds it; sum is its SHA-256. The same
	// name comes again with the same value, also from several callers at once.
	// It is bounded by ctx; what it began may read value on after it returned.
	// Errors are fit to be shown, and those that need an operator say so with
	// fault.Operator.
	Put(ctx context.Context, name string, value []byte, sum [sha256.Size]byte) (url string, err error)
}

// storeTimeout bounds one attempt to store a value: 100 MB at 1 MB/s, twice.
const storeTimeout = 200 * time.Second

// storeError is what a Store answered.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// claim stores the value of a batch of one that no request can carry, and puts
// a claim to it into the place of the message, which can be published then. The
// batch stays as it is when its key and headers alone, in an envelope, are too
// large. It returns an error only when ctx ends.
func (p *publication) claim(ctx context.Context) error {
	field := p.batch.Part(0, 1)
	value := message.Value(field)
	sum := sha256.Sum256(value)
	name, _ := message.Attribute(field, message.AttrIdempotencyKey)
	var url string
	err := p.insist(ctx, storeFails, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		if url, err = p.route.Store.Put(ctx, name, value, sum); err != nil {
			return &storeError{err}
		}
		return nil
	}, func(err error) (fault.Class, string) {
		if o, ok := errors.AsType[*fault.OperatorError](err); ok {
			return fault.Held, "store: " + o.Advice
		}
		return fault.Retryable, ""
	})
	if err != nil {
		// An upload that was given up may still read the slab: it is not reused.
		p.batch.Slab = nil
		return err
	}
	p.route.stored.Add(1)
	if claim := message.Claim(field, url, sum); len(p.batch.Head)+len(claim) <= message.MaxRequest {
		p.batch.Slab, p.batch.Starts, p.batch.Refusal = claim, []int32{0}, nil
	}
	return nil
}
