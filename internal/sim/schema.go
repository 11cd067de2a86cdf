package sim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// schemaData are the schemas of the custom resources at version v1beta1: types,
// defaults and limits, without descriptions and without CEL rules. They are
// those of kubernetes-sigs/agent-sandbox (Apache-2.0) at commit 2fd412d5.
//
//go:embed schema/v1beta1.json
var schemaData []byte

// A schema is a structural schema as CustomResourceDefinitions have them.
type schema struct {
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	Items                *schema            `json:"items"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Required             []string           `json:"required"`
	Enum                 []string           `json:"enum"`
	Format               string             `json:"format"`
	Minimum              *int64             `json:"minimum"`
	MinLength            *int               `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	Pattern              string             `json:"pattern"`
	Default              any                `json:"default"`
	IntOrString          bool               `json:"intOrString"`
	MapKeys              []string           `json:"mapKeys"` // fields that tell a list's elements apart
	Ref                  string             `json:"ref"`

	pattern *regexp.Regexp
}

// schemas are by kind, laterSchemas with what Config.ServiceFQDN adds.
var (
	schemas      = sync.OnceValue(readSchemas)
	laterSchemas = sync.OnceValue(func() map[string]*schema {
		out := readSchemas()
		bound := out[claims.kind].Properties["status"].Properties["sandbox"]
		bound.Properties["serviceFQDN"] = &schema{Type: "string"}
		return out
	})
)

// schema returns what the server checks a kind's objects by, nil if nothing.
func (w *world) schema(r *resource) *schema {
	if w.cfg.ServiceFQDN {
		return laterSchemas()[r.kind]
	}
	return schemas()[r.kind]
}

func readSchemas() map[string]*schema {
	var file map[string]json.RawMessage
	must(json.Unmarshal(schemaData, &file))
	var shared map[string]*schema
	must(json.Unmarshal(file["shared"], &shared))
	out := make(map[string]*schema)
	for kind, data := range file {
		if kind == "shared" {
			continue
		}
		var s *schema
		must(json.Unmarshal(data, &s))
		out[kind] = s.resolve(shared)
	}
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *schema) resolve(shared map[string]*schema) *schema {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		s = shared[s.Ref]
	}
	for k, p := range s.Properties {
		s.Properties[k] = p.resolve(shared)
	}
	s.Items = s.Items.resolve(shared)
	s.AdditionalProperties = s.AdditionalProperties.resolve(shared)
	if s.Pattern != "" {
		s.pattern = regexp.MustCompile(s.Pattern)
	}
	if n, ok := integer(s.Default); ok {
		s.Default = n
	}
	return s
}

// metadataFields are what ObjectMeta knows.
var metadataFields = []string{"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
	"generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid"}

// prune takes unknown fields out of an object and returns their paths.
func (s *schema) prune(o object) (unknown []string) {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if _, ok := s.Properties[k]; !ok {
			unknown = append(unknown, k)
			delete(o, k)
		}
	}
	meta := sub(o, "metadata")
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if !contains(metadataFields, k) {
			unknown = append(unknown, "metadata."+k)
			delete(meta, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if k != "metadata" {
			s.Properties[k].pruneValue(o[k], k, &unknown)
		}
	}
	return unknown
}

func (s *schema) pruneValue(v any, path string, unknown *[]string) {
	switch v := v.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			next := s.Properties[k]
			if next == nil {
				next = s.AdditionalProperties
			}
			if next == nil && s.Type == "object" {
				*unknown = append(*unknown, path+"."+k)
				delete(v, k)
			} else if next != nil {
				next.pruneValue(v[k], path+"."+k, unknown)
			}
		}
	case list:
		if s.Items != nil {
			for i, e := range v {
				s.Items.pruneValue(e, fmt.Sprintf("%s[%d]", path, i), unknown)
			}
		}
	}
}

// fill puts defaults where nothing or null is, and takes other nulls away.
func (s *schema) fill(v any) {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			}
		}
		for k, p := range s.Properties {
			if _, ok := v[k]; !ok && p.Default != nil {
				v[k] = deepCopy(p.Default)
			}
		}
		for k, e := range v {
			if p := s.Properties[k]; p != nil {
				p.fill(e)
			} else if s.AdditionalProperties != nil {
				s.AdditionalProperties.fill(e)
			}
		}
	case list:
		if s.Items != nil {
			for _, e := range v {
				s.Items.fill(e)
			}
		}
	}
}

// check is validation; metadata is not its business.
func (s *schema) check(v any, path string) (causes []cause) {
	if kind := kindOf(v); !s.takes(kind) {
		return s.wrongType(v, kind, path)
	}
	switch v := v.(type) {
	case object:
		for _, k := range s.Required {
			if _, ok := v[k]; !ok {
				causes = append(causes, required(join(path, k), ""))
			}
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if path == "" && k == "metadata" {
				continue
			}
			if p := s.Properties[k]; p != nil {
				causes = append(causes, p.check(v[k], join(path, k))...)
			} else if s.AdditionalProperties != nil {
				causes = append(causes, s.AdditionalProperties.check(v[k], join(path, k))...)
			}
		}
	case list:
		for i, e := range v {
			if s.Items != nil {
				causes = append(causes, s.Items.check(e, fmt.Sprintf("%s[%d]", path, i))...)
			}
		}
		causes = append(causes, s.checkKeys(v, path)...)
	case string:
		causes = s.checkText(v, path)
	case int64:
		if s.Minimum != nil && v < *s.Minimum {
			causes = append(causes, invalidValue(path, fmt.Sprint(v), fmt.Sprintf("%s in body should be greater than or equal to %d", path, *s.Minimum)))
		}
	}
	return causes
}

// wrongType is what the server says of a value that is of another type.
func (s *schema) wrongType(v any, kind, path string) []cause {
	want := s.Type
	switch {
	case s.IntOrString:
		want = "integer,string"
	case s.Format == "date-time":
		want, kind = s.Format, map[string]string{"integer": "int64", "number": "float64"}[kind]
	}
	causes := []cause{invalidType(path, quoted(kind), fmt.Sprintf("%s in body must be of type %s: %q", path, want, kind))}
	if len(s.Enum) > 0 {
		data, _ := json.Marshal(v)
		causes = append(causes, unsupported(path, string(data), s.Enum))
	}
	return causes
}

// checkKeys refuses elements that the fields which tell them apart do not.
func (s *schema) checkKeys(l list, path string) (causes []cause) {
	if len(s.MapKeys) == 0 {
		return nil
	}
	seen := make(map[string]bool)
	for i, e := range l {
		key := object{}
		for _, k := range s.MapKeys {
			if v := at(e, k); v != nil {
				key[k] = v
			}
		}
		data, _ := json.Marshal(key)
		if seen[string(data)] {
			causes = append(causes, cause{fmt.Sprintf("%s[%d]", path, i), "FieldValueDuplicate", "Duplicate value: " + string(data)})
		}
		seen[string(data)] = true
	}
	return causes
}

func (s *schema) checkText(v, path string) (causes []cause) {
	if s.Format == "date-time" && !dateTime(v) {
		causes = append(causes, invalidType(path, quoted(v), fmt.Sprintf("%s in body must be of type date-time: %q", path, v)))
	}
	if len(s.Enum) > 0 && !contains(s.Enum, v) {
		causes = append(causes, unsupported(path, quoted(v), s.Enum))
	}
	length := utf8.RuneCountInString(v)
	if s.MinLength != nil && length < *s.MinLength {
		causes = append(causes, invalidValue(path, quoted(v), fmt.Sprintf("%s in body should be at least %d chars long", path, *s.MinLength)))
	}
	if s.MaxLength != nil && length > *s.MaxLength {
		causes = append(causes, cause{path, "FieldValueTooLong", fmt.Sprintf("Too long: may not be more than %d bytes", *s.MaxLength)})
	}
	if s.pattern != nil && !s.pattern.MatchString(v) {
		causes = append(causes, invalidValue(path, quoted(v), fmt.Sprintf("%s in body should match '%s'", path, s.Pattern)))
	}
	return causes
}

// dateTime reports whether the server takes the stamp: RFC 3339 with a T and
// seconds, in either case of letters.
func dateTime(v string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.ToUpper(v))
	return err == nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func kindOf(v any) string {
	switch v.(type) {
	case object:
		return "object"
	case list:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	}
	return "null"
}

func (s *schema) takes(kind string) bool {
	if s.IntOrString {
		return kind == "integer" || kind == "string"
	}
	return kind == s.Type || s.Type == "number" && kind == "integer" || s.Type == ""
}
