package policy_test

import (
	"os"
	"testing"

	"github.com/sandlot-go/sandlot/policy"
)

// The pod that a server stored, and what is not known of one whose containers cannot be read.
func TestPodOf(t *testing.T) {
	const container = `{"metadata":{"name":"p","namespace":"lab-7","labels":{"a":"b"}},"spec":{"containers":[{"ports":[{"name":"agent","containerPort":1024},{"containerPort":53,"protocol":"UDP"}]}],"initContainers":[{"ports":[{"name":"side","containerPort":9}]}]}}`
	got := policy.PodOf(parse(t, container)[0])
	want := policy.Pod{Subject: "pod p", Namespace: "lab-7", Labels: map[string]string{"a": "b"}, Known: true,
		Ports: []policy.ContainerPort{{Name: "agent", Port: 1024}, {Protocol: "UDP", Port: 53}, {Name: "side", Port: 9}}}
	if !jsonEqual(t, got, want) {
		t.Errorf("got %s, want %s", text(got), text(want))
	}
	for _, broken := range []string{
		`{}`,
		`{"spec":{"containers":"x"}}`,
		`{"spec":{"containers":[7]}}`,
		`{"spec":{"containers":[{"ports":{}}]}}`,
		`{"spec":{"containers":[{"ports":[{"containerPort":"http"}]}]}}`,
		`{"spec":{"containers":[{"ports":[{"containerPort":70000}]}]}}`,
		`{"spec":{"containers":[{"ports":[{"containerPort":80,"name":7}]}]}}`,
		`{"spec":{"containers":[{}],"initContainers":true}}`,
	} {
		if got := policy.PodOf(parse(t, broken)[0]); got.Known {
			t.Errorf("%s is a known pod %s", broken, text(got))
		}
	}
}

// A pod as a server stored it has the agent's port by name.
func TestPodOfRecorded(t *testing.T) {
	raw, err := os.ReadFile("../testdata/fixtures/pod-direct.json")
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, string(raw))[0]
	got := policy.PodOf(o)
	if !got.Known || len(got.Labels) == 0 || len(got.Ports) == 0 {
		t.Errorf("the recorded pod is %s", text(got))
	}
}
