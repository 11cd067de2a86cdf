package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
)

const maxManifest = 64 << 20

// readManifests reads the objects in files. Whatever is not certainly an object
// of a cluster is refused: a policy that is overlooked opens more than one that
// is not there.
func readManifests(ctx context.Context, paths []string, stdin io.Reader) ([]k8s.Object, error) {
	var objects []k8s.Object
	for _, path := range paths {
		data, err := readManifest(ctx, path, stdin)
		if err == nil {
			var found []k8s.Object
			if found, err = parseManifest(data); err == nil {
				objects = append(objects, found...)
				continue
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, usagef("-f %s: %v", path, err)
	}
	return objects, nil
}

func readManifest(ctx context.Context, path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		return readBounded(heed(ctx, stdin), maxManifest)
	}
	f, err := os.Open(path)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // the path is in the message already
		}
		return nil, err
	}
	defer f.Close()
	return readBounded(f, maxManifest)
}

// parseManifest reads JSON documents that stand one after the other.
func parseManifest(data []byte) ([]k8s.Object, error) {
	var m manifest
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for n := 1; ; n++ {
		var v any
		err := decoder.Decode(&v)
		switch {
		case errors.Is(err, io.EOF) && n == 1:
			return nil, errors.New("is empty")
		case errors.Is(err, io.EOF):
			return m.objects, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("ends in the middle of a JSON document")
		case err != nil:
			at := decoder.InputOffset()
			if e, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = min(max(e.Offset, 0), int64(len(data)))
			}
			return nil, fmt.Errorf("is not JSON, in line %d: %w; kubectl writes JSON with -o json", 1+bytes.Count(data[:at], []byte("\n")), err)
		}
		if err := m.add(v, fmt.Sprintf("document %d", n), 0); err != nil {
			return nil, err
		}
	}
}

// manifest is what was found in a file so far.
type manifest struct{ objects []k8s.Object }

const maxListDepth = 8

// add adds the objects in one value. at says where the value is, depth in how
// many lists.
func (m *manifest) add(v any, at string, depth int) error {
	if depth > maxListDepth {
		return fmt.Errorf("%s is a list in a list in a list, and so on", at)
	}
	switch v := v.(type) {
	case []any:
		return m.addAll(v, at, depth+1)
	case map[string]any:
		return m.addObject(v, at, depth)
	}
	return fmt.Errorf("%s is %s, not an object or a list of objects", at, jsonKind(v))
}

func (m *manifest) addAll(list []any, at string, depth int) error {
	for i, item := range list {
		if err := m.add(item, fmt.Sprintf("%s[%d]", at, i), depth); err != nil {
			return err
		}
	}
	return nil
}

func (m *manifest) addObject(o k8s.Object, at string, depth int) error {
	kind, isText := o["kind"].(string)
	switch {
	case o["kind"] == nil:
		return m.addRecording(o, at, depth)
	case !isText || kind == "":
		return fmt.Errorf("%s has a kind that is no name", at)
	case kind == "Status":
		return fmt.Errorf("%s is what a server says when it refuses: %.300s", at, o.Text("message"))
	case strings.HasSuffix(kind, "List"):
		return m.addList(o, strings.TrimSuffix(kind, "List"), at, depth)
	}
	m.objects = append(m.objects, o)
	return nil
}

// addList adds the items of a list. A server leaves the kind out of the items of
// a list that has one kind only.
func (m *manifest) addList(list k8s.Object, kind, at string, depth int) error {
	v, there := list["items"]
	items, ok := v.([]any)
	if !there || !ok && v != nil {
		return fmt.Errorf("%s is a %sList, and its items are no list", at, kind)
	}
	if next := list.Field("metadata", "continue"); next != nil && next != "" {
		return fmt.Errorf("%s is one page of a longer %sList: put all of it into the file, as kubectl does", at, kind)
	}
	typed := make([]any, len(items))
	for i, item := range items {
		typed[i] = item
		if o, isObject := item.(map[string]any); isObject && o["kind"] == nil && kind != "" {
			o = maps.Clone(o)
			o["kind"] = kind
			typed[i] = o
		}
	}
	return m.addAll(typed, at+".items", depth+1)
}

// addRecording reads what is no object but holds some: the answer to a request,
// or the states that one object went through.
func (m *manifest) addRecording(o k8s.Object, at string, depth int) error {
	if response := o.Map("response"); response != nil {
		body, err := recordedBody(response)
		if err != nil {
			return fmt.Errorf("%s is a recorded answer %w", at, err)
		}
		return m.add(body, at+".response.body", depth+1)
	}
	names := slices.Sorted(maps.Keys(o))
	kinds := 0
	for _, name := range names {
		state := o.Map(name)
		if state.Map("metadata") == nil {
			kinds = 0
			break
		}
		if state["kind"] != nil {
			kinds++
		}
	}
	if kinds == 0 {
		return fmt.Errorf("%s has no kind: want a policy, a Pod or a list of them", at)
	}
	for _, name := range names {
		state := o.Map(name)
		if state["kind"] == nil {
			m.objects = append(m.objects, state) // which is said not to be judged
			continue
		}
		if err := m.addObject(state, at+"."+name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func recordedBody(response k8s.Object) (any, error) {
	if code, _ := response.Int("status"); code >= 300 {
		return nil, fmt.Errorf("with status %d", code)
	}
	body := response["body"]
	if text, isText := body.(string); isText {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("whose body is not JSON")
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&body); err != nil {
			return nil, err
		}
	}
	if _, isObject := body.(map[string]any); !isObject {
		return nil, fmt.Errorf("whose body is %s", jsonKind(body))
	}
	return body, nil
}

func jsonKind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}
