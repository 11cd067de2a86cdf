package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The patterns and messages are those of k8s.io/apimachinery's
// util/validation, which the server's answers quote.
const (
	subdomainPattern = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`
	subdomainMessage = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '` + subdomainPattern + `')`
	namePattern      = `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
	nameMessage      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '` + namePattern + `')`
	valuePattern     = `(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?`
	valueMessage     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '` + valuePattern + `')`
)

var (
	subdomain  = regexp.MustCompile(`^` + subdomainPattern + `$`)
	namePart   = regexp.MustCompile(`^` + namePattern + `$`)
	labelValue = regexp.MustCompile(`^` + valuePattern + `$`)
)

func tooLong(limit int, unit string) string {
	return fmt.Sprintf("must be no more than %d %s", limit, unit)
}

func checkSubdomain(s string) (why []string) {
	if len(s) > 253 {
		why = append(why, tooLong(253, "characters"))
	}
	if !subdomain.MatchString(s) {
		why = append(why, subdomainMessage)
	}
	return why
}

// checkKey is for keys of labels and annotations.
func checkKey(key string) (why []string) {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	switch {
	case strings.Contains(name, "/"):
		return []string{"a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" + namePattern + "') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"}
	case found && prefix == "":
		why = append(why, "prefix part must be non-empty")
	case found:
		for _, w := range checkSubdomain(prefix) {
			why = append(why, "prefix part "+w)
		}
	}
	switch {
	case name == "":
		why = append(why, "name part must be non-empty")
	case len(name) > 63:
		why = append(why, "name part "+tooLong(63, "bytes"))
	}
	if !namePart.MatchString(name) {
		why = append(why, nameMessage)
	}
	return why
}

func checkLabelValue(value string) (why []string) {
	if len(value) > 63 {
		why = append(why, tooLong(63, "bytes"))
	}
	if !labelValue.MatchString(value) {
		why = append(why, valueMessage)
	}
	return why
}

// metadataKinds are the JSON types of the fields that this server reads.
var metadataKinds = map[string]string{
	"name": "string", "namespace": "string", "generateName": "string", "uid": "string", "resourceVersion": "string",
	"creationTimestamp": "string", "deletionTimestamp": "string", "deletionGracePeriodSeconds": "integer", "generation": "integer",
	"finalizers": "array", "ownerReferences": "array",
}

// undecodable has the words of Go's decoder.
func undecodable(o object, v any, field, kind string) *failure {
	if v == nil {
		return unmodelled("null in metadata.%s", field)
	}
	k := text(o, "kind")
	return badRequest("%s in version %q cannot be handled as a %s: json: cannot unmarshal %s into Go struct field ObjectMeta.%s of type %s", k, "v1beta1", k, jsonKind(v), field, kind)
}

// checkMetadataTypes refuses what the server could not even decode.
func checkMetadataTypes(o object) *failure {
	meta := sub(o, "metadata")
	for _, field := range []string{"labels", "annotations"} {
		if v := meta[field]; v != nil && kindOf(v) != "object" {
			return undecodable(o, v, field, "map[string]string")
		}
		for _, v := range sub(meta, field) {
			if kindOf(v) != "string" {
				return undecodable(o, v, field, "string")
			}
		}
	}
	for field, kind := range metadataKinds {
		if v := meta[field]; v != nil && kindOf(v) != kind {
			return unmodelled("metadata.%s of type %s", field, kindOf(v))
		}
	}
	for field, kind := range map[string]string{"finalizers": "string", "ownerReferences": "object"} {
		for _, v := range items(meta, field) {
			if kindOf(v) != kind {
				return unmodelled("an element of metadata.%s of type %s", field, kindOf(v))
			}
		}
	}
	return nil
}

// checkMetadata is what the server asks of an object to be created.
func checkMetadata(o object) (causes []cause) {
	meta := sub(o, "metadata")
	switch n := text(meta, "name"); {
	case n == "" && text(meta, "generateName") == "":
		causes = append(causes, required("metadata.name", "name or generateName is required"))
	case n != "":
		for _, why := range checkSubdomain(n) {
			causes = append(causes, invalidValue("metadata.name", quoted(n), why))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		set := sub(meta, field)
		for _, k := range slices.Sorted(maps.Keys(set)) {
			v, _ := set[k].(string)
			key := k
			if field == "annotations" {
				key = strings.ToLower(k)
			}
			for _, why := range checkKey(key) {
				causes = append(causes, invalidValue("metadata."+field, quoted(k), why))
			}
			if field == "labels" {
				for _, why := range checkLabelValue(v) {
					causes = append(causes, invalidValue("metadata.labels", quoted(v), why))
				}
			}
		}
	}
	return causes
}
