package fakepubsub

import (
	"context"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that codec falls back to
	"google.golang.org/grpc/mem"
)

// wireRequest and wireResponse are a publish request and response as bytes: no
// protobuf struct is built for them, so the fake costs a benchmark little.
type (
	wireRequest  struct{ buf mem.Buffer }
	wireResponse struct{ body []byte }
)

// codec is protobuf for everything but publishing.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(wireResponse); ok {
		return mem.BufferSlice{mem.SliceBuffer(r.body)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*wireRequest); ok {
		r.buf = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// serviceDesc is the generated description with a Publish that works on bytes.
func serviceDesc() *grpc.ServiceDesc {
	d := pubsubpb.Publisher_ServiceDesc
	d.Methods = slices.Clone(d.Methods)
	for i := range d.Methods {
		if d.Methods[i].MethodName == "Publish" {
			d.Methods[i].Handler = publishHandler()
		}
	}
	return &d
}

func publishHandler() grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var req wireRequest
		if err := dec(&req); err != nil {
			return nil, err
		}
		defer req.buf.Free()
		body, err := srv.(*Server).publish(ctx, req.buf.ReadOnlyData())
		if err != nil {
			return nil, err
		}
		return wireResponse{body}, nil
	}
}
