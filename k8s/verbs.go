package k8s

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// Get reads an object.
func (c *Client) Get(ctx context.Context, r Resource, name string) (Object, error) {
	q, err := c.named("GET", r, name)
	if err != nil {
		return nil, err
	}
	return c.object(ctx, q, name)
}

// Create stores a new object. What o leaves out of apiVersion and kind is filled
// in. A field that the server does not know is refused rather than dropped.
//
// A POST may have been applied although it failed. Unless the error says
// NotApplied, or is a refusal, look for the object before posting it again.
func (c *Client) Create(ctx context.Context, r Resource, o Object) (Object, error) {
	q, err := c.call("POST", r, "")
	if err != nil {
		return nil, err
	}
	if name := o.Field("metadata", "name"); name != nil {
		s, _ := name.(string)
		if err := CheckName(s); err != nil {
			return nil, q.notSent(err)
		}
	}
	if ns := o.Namespace(); ns != "" && ns != c.namespace && !r.ClusterScoped {
		return nil, q.notSent(fmt.Errorf("k8s: the object is for namespace %q, the client for %q", clip(ns, 300), c.namespace))
	}
	full := Object{"apiVersion": r.APIVersion()}
	if r.Kind != "" {
		full["kind"] = r.Kind
	}
	for k, v := range o {
		full[k] = v
	}
	if err := q.write("application/json", full); err != nil {
		return nil, err
	}
	return c.object(ctx, q, o.Name())
}

// MergePatch changes an object by a JSON merge patch (RFC 7386). A null removes
// a field.
func (c *Client) MergePatch(ctx context.Context, r Resource, name string, patch Object) (Object, error) {
	q, err := c.named("PATCH", r, name)
	if err != nil {
		return nil, err
	}
	if patch == nil {
		return nil, q.notSent(errors.New("k8s: the patch is nil"))
	}
	if err := q.write("application/merge-patch+json", patch); err != nil {
		return nil, err
	}
	return c.object(ctx, q, name)
}

// A PatchOp is one operation of a JSON patch (RFC 6902).
type PatchOp struct {
	Op    string // add, remove, replace, move, copy or test
	Path  string
	From  string // of move and copy
	Value any    // of add, replace and test; nil is null
}

// member is the operation with the members that it has, and no others.
func (p PatchOp) member() (map[string]any, error) {
	m := map[string]any{"op": p.Op, "path": p.Path}
	switch p.Op {
	case "add", "replace", "test":
		m["value"] = p.Value
	case "move", "copy":
		m["from"] = p.From
	case "remove":
	default:
		return nil, fmt.Errorf("k8s: %q is no operation of a JSON patch", clip(p.Op, 100))
	}
	for _, pointer := range []string{p.Path, p.From} {
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			return nil, fmt.Errorf("k8s: %q is no JSON pointer, which begins with a slash", clip(pointer, 300))
		}
	}
	return m, nil
}

// JSONPatch changes an object by operations that all hold or none. If a test
// does not hold, or the patch is wrong, the error is [Invalid]; the server does
// not say which.
func (c *Client) JSONPatch(ctx context.Context, r Resource, name string, ops []PatchOp) (Object, error) {
	q, err := c.named("PATCH", r, name)
	if err != nil {
		return nil, err
	}
	q.jsonPatch = true
	if len(ops) == 0 {
		return nil, q.notSent(errors.New("k8s: the patch has no operations"))
	}
	members := make([]any, len(ops))
	for i, op := range ops {
		if members[i], err = op.member(); err != nil {
			return nil, q.notSent(err)
		}
	}
	if err := q.write("application/json-patch+json", members); err != nil {
		return nil, err
	}
	return c.object(ctx, q, name)
}

// DeleteOptions narrow and shape a deletion. With the zero value the request has
// no body.
type DeleteOptions struct {
	UID             string // delete only the object of this uid, else Conflict
	ResourceVersion string // and only at this version
	Propagation     string // Foreground, Background or Orphan; "" = the server's choice
}

// Delete asks for the end of an object and returns what the server answered: the
// object, if it stays for a while, or a Status. A plain deletion does not wait
// for what the object owns.
func (c *Client) Delete(ctx context.Context, r Resource, name string, o DeleteOptions) (Object, error) {
	q, err := c.named("DELETE", r, name)
	if err != nil {
		return nil, err
	}
	q.query = nil
	if o != (DeleteOptions{}) {
		body := Object{"apiVersion": "v1", "kind": "DeleteOptions"}
		switch o.Propagation {
		case "":
		case "Foreground", "Background", "Orphan":
			body["propagationPolicy"] = o.Propagation
		default:
			return nil, q.notSent(fmt.Errorf("k8s: propagation %q is none of Foreground, Background, Orphan", clip(o.Propagation, 100)))
		}
		pre := Object{}
		if o.UID != "" {
			pre["uid"] = o.UID
		}
		if o.ResourceVersion != "" {
			pre["resourceVersion"] = o.ResourceVersion
		}
		if len(pre) > 0 {
			body["preconditions"] = pre
		}
		if err := q.write("application/json", body); err != nil {
			return nil, err
		}
	}
	rep, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	if rep.code == 204 {
		return nil, nil
	}
	got, err := ParseObject(rep.body)
	if err != nil {
		return nil, q.broken(rep, err)
	}
	if st, ok := statusOf(got); ok {
		if st.outcome != "Success" {
			return nil, q.broken(rep, errors.New("it is a Status, but not of success"))
		}
		return got, nil
	}
	if err := q.expect(got, name, rep.token); err != nil {
		return nil, q.broken(rep, err)
	}
	return got, nil
}

// call begins a call about an object, or the collection when name is "".
func (c *Client) call(method string, r Resource, name string) (*call, error) {
	q := &call{
		target: target{method: method, resource: r, name: name},
		limit:  c.core.cfg.MaxObjectBytes,
	}
	path, err := r.Path(c.namespace, name)
	if err != nil {
		q.path = "(" + excerpt(clip(r.Plural, 100)) + ")"
		return nil, q.notSent(err)
	}
	q.path = path
	if method != "GET" {
		q.query = url.Values{"fieldValidation": {"Strict"}}
	}
	return q, nil
}

// named is call for what must have a name.
func (c *Client) named(method string, r Resource, name string) (*call, error) {
	q, err := c.call(method, r, name)
	if err == nil && name == "" {
		return nil, q.notSent(CheckName(name))
	}
	return q, err
}

// write puts a body into the call.
func (q *call) write(contentType string, v any) error {
	b, err := encode(v)
	if err != nil {
		return q.notSent(err)
	}
	if len(b) > defaultMaxObject {
		e := q.fail(TooLarge, fmt.Sprintf("not sent: the body has %d bytes, an API server takes %d", len(b), defaultMaxObject), nil)
		e.NotApplied = true
		return e
	}
	q.contentType, q.body = contentType, b
	return nil
}

// object makes the call and returns the object of that name; "" = any name.
func (c *Client) object(ctx context.Context, q *call, name string) (Object, error) {
	rep, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	o, err := ParseObject(rep.body)
	if err == nil {
		err = q.expect(o, name, rep.token)
	}
	if err != nil {
		return nil, q.broken(rep, err)
	}
	return o, nil
}

// expect checks that o is the object that was asked for and no other.
func (q *call) expect(o Object, name, secret string) error {
	if _, ok := statusOf(o); ok {
		return errors.New("it is a Status, not the object")
	}
	if kind := o.Text("kind"); q.resource.Kind != "" && kind != q.resource.Kind {
		return fmt.Errorf("its kind is %q, not %s", excerpt(without(kind, secret)), q.resource.Kind)
	}
	if name != "" && o.Name() != name {
		return fmt.Errorf("its name is %q, not %s", excerpt(without(o.Name(), secret)), name)
	}
	return nil
}

// notSent is the error of a call that is wrong before any server has seen it.
func (q *call) notSent(err error) *APIError {
	e := q.fail(Invalid, "not sent", err)
	e.NotApplied = true
	return e
}

// broken is the error of an answer that is not what it should be.
func (q *call) broken(r reply, err error) *APIError {
	e := q.fail(Protocol, "the answer is not what was asked for", err)
	e.Code = r.code
	e.redact(r.token)
	return e
}

func encode(v any) ([]byte, error) {
	b, err := jsontree.Append(nil, v)
	if err != nil {
		return nil, fmt.Errorf("k8s: the body cannot be encoded: %w", err)
	}
	return b, nil
}
