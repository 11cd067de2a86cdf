package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/lease"
)

func answer(kind k8s.Kind, code int) error {
	return &k8s.APIError{Kind: kind, Code: code, Method: "PATCH"}
}

var errOther = errors.New("bound to another sandbox")

func TestJudge(t *testing.T) {
	asked := time.Date(2026, 11, 29, 21, 51, 27, 0, time.UTC)
	for _, c := range []struct {
		sentence string
		answer   lease.Renewed
		err      error
		lost     lease.Reason
		failed   bool
		stored   time.Time
	}{
		{"what was asked is stored", lease.Renewed{Expiry: asked}, nil, "", false, asked},
		{"a later one is stored", lease.Renewed{Expiry: asked.Add(h)}, nil, "", false, asked.Add(h)},
		{"a second earlier is stored", lease.Renewed{Expiry: asked.Add(-s)}, nil, "", true, asked.Add(-s)},
		{"a nanosecond earlier is stored", lease.Renewed{Expiry: asked.Add(-1)}, nil, "", true, asked.Add(-1)},
		{"the old one is stored", lease.Renewed{Expiry: asked.Add(-h)}, nil, "", true, asked.Add(-h)},
		{"no expiry is stored", lease.Renewed{}, nil, "", true, time.Time{}},
		{"the answer shows another sandbox", lease.Renewed{Expiry: asked, Lost: errOther}, nil, lease.ReasonChanged, true, time.Time{}},
		{"404 with a Status that names the object", lease.Renewed{}, answer(k8s.NotFound, 404), lease.ReasonGone, true, time.Time{}},
		{"the same, wrapped", lease.Renewed{}, fmt.Errorf("renewing: %w", answer(k8s.NotFound, 404)), lease.ReasonGone, true, time.Time{}},
		{"410", lease.Renewed{}, answer(k8s.Gone, 410), lease.ReasonGone, true, time.Time{}},
		{"404 in plain text: the resource is not served", lease.Renewed{}, answer(k8s.NotServed, 404), "", true, time.Time{}},
		{"403, as an API server answers while it starts", lease.Renewed{}, answer(k8s.Forbidden, 403), "", true, time.Time{}},
		{"401", lease.Renewed{}, answer(k8s.Unauthorized, 401), "", true, time.Time{}},
		{"409", lease.Renewed{}, answer(k8s.Conflict, 409), "", true, time.Time{}},
		{"422", lease.Renewed{}, answer(k8s.Invalid, 422), "", true, time.Time{}},
		{"429", lease.Renewed{}, answer(k8s.TooManyRequests, 429), "", true, time.Time{}},
		{"500", lease.Renewed{}, answer(k8s.ServerError, 500), "", true, time.Time{}},
		{"no answer", lease.Renewed{}, answer(k8s.Unreachable, 0), "", true, time.Time{}},
		{"an error of no kind", lease.Renewed{}, context.DeadlineExceeded, "", true, time.Time{}},
		{"an error beside an answer: the answer is not looked at", lease.Renewed{Expiry: asked.Add(h)}, answer(k8s.Protocol, 200), "", true, time.Time{}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			lost, stored, err := lease.Judge(asked, c.answer, c.err)
			if lost != c.lost || (err != nil) != c.failed || !stored.Equal(c.stored) {
				t.Errorf("Judge(%+v, %v) = %q, %v, %v; want %q, failed %v, %v", c.answer, c.err, lost, err, stored, c.lost, c.failed, c.stored)
			}
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("error %v does not wrap %v", err, c.err)
			}
		})
	}
}

func TestJudgeAllowsTheFractionToBeDropped(t *testing.T) {
	asked := time.Date(2026, 11, 29, 21, 51, 27, 686_000_000, time.UTC)
	if _, _, err := lease.Judge(asked, lease.Renewed{Expiry: asked.Truncate(s)}, nil); err != nil {
		t.Errorf("the asked expiry without its fraction is refused: %v", err)
	}
}
