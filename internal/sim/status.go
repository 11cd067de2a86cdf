package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// A failure is an answer that is no success: a Status object, or plain text
// where the real server answers so.
type failure struct {
	code       int
	reason     string
	message    string
	details    object
	retryAfter int    // seconds; 0 is none
	plain      string // text/plain body instead of a Status
	token      string // metadata.continue
	unmodelled bool   // nothing is known of what the real server answers
}

func (f *failure) status() object {
	s := object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure",
		"message": f.message, "reason": f.reason, "code": int64(f.code)}
	if f.token != "" {
		s["metadata"] = object{"continue": f.token}
	}
	if f.details != nil {
		s["details"] = f.details
	}
	return s
}

func success(r *resource, o object) object {
	details := object{"name": name(o), "kind": r.plural, "uid": uid(o)}
	if r.group != "" {
		details["group"] = r.group
	}
	return object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "details": details}
}

func details(r *resource, name, kind string) object {
	d := object{"kind": kind}
	if name != "" {
		d["name"] = name
	}
	if r.group != "" {
		d["group"] = r.group
	}
	return d
}

// unmodelled is the answer to what nobody looked up: it makes a test fail, see
// [Cluster.Unmodelled].
func unmodelled(format string, args ...any) *failure {
	return &failure{code: http.StatusNotImplemented, reason: "NotImplemented", message: "sim: not modelled: " + fmt.Sprintf(format, args...), unmodelled: true}
}

func badRequest(format string, args ...any) *failure {
	return &failure{code: http.StatusBadRequest, reason: "BadRequest", message: fmt.Sprintf(format, args...)}
}

func notServed() *failure {
	return &failure{code: http.StatusNotFound, plain: "404 page not found\n"}
}

func notFound(r *resource, name string) *failure {
	return &failure{code: http.StatusNotFound, reason: "NotFound", message: fmt.Sprintf("%s %q not found", r.qualified(), name), details: details(r, name, r.plural)}
}

func exists(r *resource, name string) *failure {
	return &failure{code: http.StatusConflict, reason: "AlreadyExists", message: fmt.Sprintf("%s %q already exists", r.qualified(), name), details: details(r, name, r.plural)}
}

func conflict(qualified string, details object, name, why string) *failure {
	return &failure{code: http.StatusConflict, reason: "Conflict", message: fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", qualified, name, why), details: details}
}

func unauthorized() *failure {
	return &failure{code: http.StatusUnauthorized, reason: "Unauthorized", message: "Unauthorized"}
}

func forbidden(t target, user string) *failure {
	if t.resource == nil && t.plural == "" {
		return &failure{code: http.StatusForbidden, reason: "Forbidden", details: object{},
			message: fmt.Sprintf("forbidden: User %q cannot %s path %q", user, t.verb, t.path)}
	}
	qualified, d := t.plural, object{"kind": t.plural}
	if t.group != "" {
		qualified, d["group"] = t.plural+"."+t.group, t.group
	}
	if t.name != "" {
		qualified, d["name"] = fmt.Sprintf("%s %q", qualified, t.name), t.name
	}
	where := fmt.Sprintf("in the namespace %q", t.namespace)
	if t.namespace == "" {
		where = "at the cluster scope"
	}
	return &failure{code: http.StatusForbidden, reason: "Forbidden", details: d,
		message: fmt.Sprintf("%s is forbidden: User %q cannot %s resource %q in API group %q %s", qualified, user, t.verb, t.ruled(), t.group, where)}
}

func unsupportedMediaType(accepted string) *failure {
	return &failure{code: http.StatusUnsupportedMediaType, reason: "UnsupportedMediaType",
		message: "the body of the request was in an unknown format - accepted media types include: " + accepted}
}

func tooLarge() *failure {
	return &failure{code: http.StatusRequestEntityTooLarge, reason: "RequestEntityTooLarge", message: fmt.Sprintf("Request entity too large: limit is %d", maxBody)}
}

// expired is what a list gets whose snapshot is gone, with a token that goes on
// from the same place.
func expired(token string) *failure {
	return &failure{code: http.StatusGone, reason: "Expired", token: token,
		message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."}
}

func tooOld(asked, oldest uint64) *failure {
	return &failure{code: http.StatusGone, reason: "Expired", message: fmt.Sprintf("too old resource version: %d (%d)", asked, oldest)}
}

func tooNew(asked, current uint64) *failure {
	return &failure{code: http.StatusGatewayTimeout, reason: "Timeout", retryAfter: 1,
		message: fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", asked, current),
		details: object{"retryAfterSeconds": int64(1), "causes": list{object{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}}}}
}

// A cause is one thing that is wrong with an object.
type cause struct{ field, reason, message string }

func quoted(v string) string { b, _ := json.Marshal(v); return string(b) }

func required(field, why string) cause {
	m := "Required value"
	if why != "" {
		m += ": " + why
	}
	return cause{field, "FieldValueRequired", m}
}

func invalidValue(field, value, why string) cause {
	return cause{field, "FieldValueInvalid", fmt.Sprintf("Invalid value: %s: %s", value, why)}
}

func invalidType(field, value, why string) cause {
	return cause{field, "FieldValueTypeInvalid", fmt.Sprintf("Invalid value: %s: %s", value, why)}
}

func unsupported(field, value string, supported []string) cause {
	names := make([]string, len(supported))
	for i, s := range supported {
		names[i] = quoted(s)
	}
	return cause{field, "FieldValueNotSupported", fmt.Sprintf("Unsupported value: %s: supported values: %s", value, strings.Join(names, ", "))}
}

// invalid is a 422; kind and qualified name what the object claims to be.
func invalid(qualified string, details object, name string, causes []cause) *failure {
	var messages []string
	l := make(list, 0, len(causes))
	for _, c := range causes {
		l = append(l, object{"reason": c.reason, "message": c.message, "field": c.field})
		if m := c.field + ": " + c.message; !contains(messages, m) {
			messages = append(messages, m)
		}
	}
	m := strings.Join(messages, ", ")
	if len(messages) > 1 {
		m = "[" + m + "]"
	}
	details["causes"] = l
	return &failure{code: http.StatusUnprocessableEntity, reason: "Invalid", details: details, message: fmt.Sprintf("%s %q is invalid: %s", qualified, name, m)}
}
