package sink

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/testbed/fakepubsub"
)

func TestProbe(t *testing.T) {
	const orders, dead = destination, deadLetter
	deny := func(methods ...string) func(string, string) codes.Code {
		return func(method, _ string) codes.Code {
			if slices.Contains(methods, method) {
				return codes.PermissionDenied
			}
			return codes.OK
		}
	}
	tests := []struct {
		name  string
		setUp func(*fakepubsub.Server)
		want  ProbedTopic
	}{
		{
			"all is well", func(s *fakepubsub.Server) { s.Attach(orders, "projects/p/subscriptions/s") },
			ProbedTopic{orders, fault.Yes, fault.Yes, fault.Yes, ""},
		},
		{
			"nobody subscribes", func(*fakepubsub.Server) {},
			ProbedTopic{orders, fault.Yes, fault.Yes, fault.No, ""},
		},
		{
			"missing", func(s *fakepubsub.Server) { s.RemoveTopic(orders) },
			ProbedTopic{orders, fault.No, fault.Unknown, fault.Unknown, ""},
		},
		{
			"forbidden", func(s *fakepubsub.Server) { s.Forbid(orders) },
			ProbedTopic{orders, fault.Yes, fault.No, fault.No, ""},
		},
		{
			"the publisher role alone", func(s *fakepubsub.Server) { s.RefuseAdmin(deny("GetTopic", "ListTopicSubscriptions")) },
			ProbedTopic{orders, fault.Yes, fault.Yes, fault.Unknown, ""},
		},
		{"nothing may be asked", func(s *fakepubsub.Server) {
			s.RefuseAdmin(deny("TestIamPermissions", "GetTopic", "ListTopicSubscriptions"))
		}, ProbedTopic{orders, fault.Unknown, fault.Unknown, fault.Unknown, ""}},
		{"an emulator without permissions", func(s *fakepubsub.Server) {
			s.RefuseAdmin(func(method, _ string) codes.Code {
				if method == "TestIamPermissions" {
					return codes.Unimplemented
				}
				return codes.OK
			})
		}, ProbedTopic{orders, fault.Yes, fault.Unknown, fault.No, ""}},
		{"no identity", func(s *fakepubsub.Server) {
			s.RefuseAdmin(func(string, string) codes.Code { return codes.Unauthenticated })
		}, ProbedTopic{orders, fault.Unknown, fault.Unknown, fault.Unknown, "Unauthenticated"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stored fakepubsub.Messages
			server := fakepubsub.New(fakepubsub.Options{
				Stores: []fakepubsub.Store{&stored},
				Clock:  func() time.Time { return time.Now().Add(-90 * time.Second) },
			})
			address, err := server.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			if err := server.CreateTopics(orders, dead); err != nil {
				t.Fatal(err)
			}
			tt.setUp(server)
			routes := []Route{{Topic: "orders", Destination: orders, DeadLetter: dead}, {Topic: "more", Destination: orders, DeadLetter: dead}}
			found, err := Probe(t.Context(), Options{Routes: routes, Emulator: address})
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Topics) != 2 || found.Topics[0].Name != dead {
				t.Fatalf("%+v, want each topic once, sorted", found.Topics)
			}
			got := found.Topics[1]
			if tt.want.Unanswered != "" && len(got.Unanswered) > len(tt.want.Unanswered) {
				got.Unanswered = got.Unanswered[:len(tt.want.Unanswered)]
			}
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			if !found.Clock || found.Ahead < 89*time.Second || found.Ahead > 95*time.Second {
				t.Errorf("clock ahead by %v (%v), want about 90 s", found.Ahead, found.Clock)
			}
			for _, name := range []string{orders, dead} {
				if n := server.Stats(name).Requests; n != 0 {
					t.Errorf("%d publish requests to %s", n, name)
				}
			}
		})
	}
}
