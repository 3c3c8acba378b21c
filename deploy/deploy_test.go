// Package deploy_test holds the files that users deploy against the code: a
// renamed variable or path must not be found out in production.
package deploy_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mskbridge/mskbridge/internal/admin"
	"github.com/mskbridge/mskbridge/internal/config"
)

// service is the part of Cloud Run's Knative form that the tests judge.
type service struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				Containers []container
				Volumes    []struct {
					Name   string
					Secret struct {
						SecretName string `yaml:"secretName"`
						Items      []struct{ Key, Path string }
					}
				}
			}
		}
		Traffic []struct {
			LatestRevision bool `yaml:"latestRevision"`
			Percent        int
			Tag            string
		}
	}
}

type container struct {
	Image string
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	Env           []struct{ Name, Value string }
	Resources     struct{ Limits map[string]string }
	StartupProbe  probe `yaml:"startupProbe"`
	LivenessProbe probe `yaml:"livenessProbe"`
	VolumeMounts  []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func cloudrun(t *testing.T) service {
	t.Helper()
	var s service
	if err := yaml.Unmarshal([]byte(read(t, "cloudrun.yaml")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Kind != "Service" || len(s.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("kind %q with %d containers", s.Kind, len(s.Spec.Template.Spec.Containers))
	}
	return s
}

func TestCloudRunKeepsThePullLoopAlive(t *testing.T) {
	s := cloudrun(t)
	template := s.Spec.Template.Metadata.Annotations
	tests := []struct{ name, got, want string }{
		{"instance-based billing", template["run.googleapis.com/cpu-throttling"], "false"},
		{"second generation", template["run.googleapis.com/execution-environment"], "gen2"},
		{"a fixed number of instances", s.Metadata.Annotations["run.googleapis.com/scalingMode"], "manual"},
		{"how many", s.Metadata.Annotations["run.googleapis.com/manualInstanceCount"], "2"},
		{"internal ingress", s.Metadata.Annotations["run.googleapis.com/ingress"], "internal"},
		{"no minimum that keeps old revisions", template["autoscaling.knative.dev/minScale"], ""},
		{"Direct VPC egress", template["run.googleapis.com/vpc-access-egress"], "private-ranges-only"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
	if !strings.Contains(template["run.googleapis.com/network-interfaces"], `"subnetwork"`) {
		t.Error("no network interface for the egress")
	}
	for _, traffic := range s.Spec.Traffic {
		if traffic.Tag != "" || !traffic.LatestRevision {
			t.Errorf("traffic %+v keeps an old revision consuming", traffic)
		}
	}
}

func TestCloudRunProbes(t *testing.T) {
	c := cloudrun(t).Spec.Template.Spec.Containers[0]
	if len(c.Ports) != 1 || c.Ports[0].ContainerPort != 8080 {
		t.Fatalf("ports %+v", c.Ports)
	}
	tests := []struct {
		name string
		p    probe
		path string
		secs int // that the probe must bear before it acts
	}{
		{"startup", c.StartupProbe, admin.PathStartup, 120},
		{"liveness", c.LivenessProbe, admin.PathLive, 45},
	}
	for _, test := range tests {
		p := test.p
		if p.HTTPGet.Path != test.path || p.HTTPGet.Port != 8080 {
			t.Errorf("%s asks %s on %d, want %s", test.name, p.HTTPGet.Path, p.HTTPGet.Port, test.path)
		}
		if p.TimeoutSeconds > p.PeriodSeconds || p.PeriodSeconds*p.FailureThreshold < test.secs {
			t.Errorf("%s: period %d s, timeout %d s, threshold %d", test.name, p.PeriodSeconds, p.TimeoutSeconds, p.FailureThreshold)
		}
	}
}

// TestCloudRunConfigurationIsAccepted hands the environment of the file to the
// configuration itself, with the example as the mounted routes file.
func TestCloudRunConfigurationIsAccepted(t *testing.T) {
	s := cloudrun(t)
	c := s.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	mounted := ""
	for _, v := range s.Spec.Template.Spec.Volumes {
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name && v.Secret.SecretName != "" {
				mounted = m.MountPath + "/" + v.Secret.Items[0].Path
			}
		}
	}
	if env["BRIDGE_ROUTES_FILE"] != mounted {
		t.Errorf("BRIDGE_ROUTES_FILE is %s, the secret is mounted at %s", env["BRIDGE_ROUTES_FILE"], mounted)
	}
	env["BRIDGE_ROUTES_FILE"] = "../examples/routes.yaml"
	env["BRIDGE_PROJECT"] = "example-project" // PROJECT is no legal project, so nobody deploys it unread
	accept(t, env)
}

func TestComposeConfigurationIsAccepted(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image       string
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		if s.Image != "" && !regexp.MustCompile(`:[a-z0-9.]+$`).MatchString(s.Image) {
			t.Errorf("%s: image %s has no tag", name, s.Image)
		}
	}
	accept(t, file.Services["bridge"].Environment)
}

// accept loads the configuration from env alone.
func accept(t *testing.T, env map[string]string) {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "BRIDGE_") || name == "PUBSUB_EMULATOR_HOST" || name == "GOOGLE_CLOUD_PROJECT" {
			t.Setenv(name, "") // remembers the value for later
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		t.Setenv(name, env[name])
		if !strings.Contains(config.Table(), "| `"+name+"` |") {
			t.Errorf("%s is no setting", name)
		}
	}
	if _, err := config.Load(); err != nil {
		t.Errorf("the configuration is refused: %v", err)
	}
}

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(text, -1)
	if len(stages) != 2 || stages[0] != "FROM ${BUILD_IMAGE} AS build" || stages[1] != "FROM scratch" {
		t.Errorf("stages %q", stages)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/mskbridge\"]\n", "ARG BUILD_IMAGE="} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", strings.TrimSpace(want))
		}
	}
	if strings.Contains(text, "sha256:") {
		t.Error("a digest that nobody looked up")
	}
	if shell := regexp.MustCompile(`(?m)^(RUN|CMD|ENTRYPOINT) [^\[]`).FindString(text); shell != "" {
		t.Errorf("%q needs a shell", shell)
	}
}

// TestGoVersions holds the build image and go.mod together.
func TestGoVersions(t *testing.T) {
	mod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	image := regexp.MustCompile(`golang:(\d+\.\d+)`).FindStringSubmatch(read(t, "Dockerfile"))
	if mod == nil || image == nil || mod[1] != image[1] {
		t.Errorf("go.mod %q, build image %q", mod, image)
	}
}
