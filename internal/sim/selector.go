package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A requirement is one part of a label selector.
type requirement struct {
	key      string
	operator string // exists, !, in, notin, gt, lt; = and != are in and notin
	values   []string
}

// A selector is met when all its requirements are.
type selector []requirement

func (s selector) matches(set map[string]string) bool {
	for _, r := range s {
		if !r.matches(set) {
			return false
		}
	}
	return true
}

func (r requirement) matches(set map[string]string) bool {
	v, has := set[r.key]
	switch r.operator {
	case "exists":
		return has
	case "!":
		return !has
	case "in":
		return has && slices.Contains(r.values, v)
	case "notin":
		return !has || !slices.Contains(r.values, v)
	}
	have, err := strconv.ParseInt(v, 10, 64)
	limit, _ := strconv.ParseInt(r.values[0], 10, 64)
	return has && err == nil && (r.operator == "gt" && have > limit || r.operator == "lt" && have < limit)
}

// parseSelector reads the syntax of
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/,
// with the words of the server's own parser where it finds a mistake.
func parseSelector(s string) (selector, error) {
	p := selectorParser{tokens: lexSelector(s)}
	var out selector
	for {
		t := p.peek()
		switch {
		case t.kind == tokenEnd:
			return out, nil
		case t.kind != tokenWord && t.text != "!":
			return nil, fmt.Errorf("found '%s', expected: !, identifier, or 'end of string'", t.text)
		}
		r, err := p.requirement()
		if err != nil {
			return nil, fmt.Errorf("unable to parse requirement: %w", err)
		}
		out = append(out, r)
		switch t := p.next(); {
		case t.kind == tokenEnd:
			return out, nil
		case t.text != ",":
			return nil, fmt.Errorf("found '%s', expected: ',' or 'end of string'", t.text)
		}
		if t := p.peek(); t.kind != tokenWord && t.text != "!" {
			return nil, fmt.Errorf("found '%s', expected: identifier after ','", t.text)
		}
	}
}

const (
	tokenEnd = iota
	tokenWord
	tokenSymbol
)

type selectorToken struct {
	kind int
	text string
}

const selectorSymbols = "=!(),><"

func lexSelector(s string) (out []selectorToken) {
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		if s == "" {
			return append(out, selectorToken{tokenEnd, ""})
		}
		n := strings.IndexAny(s, selectorSymbols+" \t\r\n")
		switch {
		case n < 0:
			n = len(s)
			fallthrough
		case n > 0:
			out = append(out, selectorToken{tokenWord, s[:n]})
		default:
			n = 1
			if strings.HasPrefix(s, "==") || strings.HasPrefix(s, "!=") {
				n = 2
			}
			out = append(out, selectorToken{tokenSymbol, s[:n]})
		}
		s = s[n:]
	}
}

type selectorParser struct {
	tokens []selectorToken
}

func (p *selectorParser) peek() selectorToken { return p.tokens[0] }

func (p *selectorParser) next() selectorToken {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *selectorParser) requirement() (requirement, error) {
	t := p.next()
	absent := t.text == "!"
	if absent {
		t = p.next()
	}
	if t.kind != tokenWord {
		return requirement{}, fmt.Errorf("found '%s', expected: identifier", t.text)
	}
	r := requirement{key: t.text}
	if why := checkKey(r.key); len(why) > 0 {
		return r, fmt.Errorf("<nil>: Invalid value: %q: %s", r.key, strings.Join(why, "; "))
	}
	if absent {
		r.operator = "!"
		return r, nil
	}
	if t := p.peek(); t.kind == tokenEnd || t.text == "," {
		r.operator = "exists"
		return r, nil
	}
	var err error
	switch t := p.next(); t.text {
	case "in", "notin":
		r.operator = t.text
		r.values, err = p.list()
	case "=", "==", "!=":
		r.operator = map[bool]string{true: "notin", false: "in"}[t.text == "!="]
		r.values, err = p.value()
	case ">", "<":
		r.operator = map[string]string{">": "gt", "<": "lt"}[t.text]
		if r.values, err = p.value(); err == nil {
			if _, bad := strconv.ParseInt(r.values[0], 10, 64); bad != nil {
				err = fmt.Errorf("values[0]: Invalid value: %q: for 'Gt', 'Lt' operators, the value must be an integer", r.values[0])
			}
		}
	default:
		err = fmt.Errorf("found '%s', expected: in, notin, =, ==, !=, gt, lt", t.text)
	}
	if err != nil {
		return r, err
	}
	for i, v := range r.values {
		if why := checkLabelValue(v); len(why) > 0 {
			return r, fmt.Errorf("values[%d][%s]: Invalid value: %q: %s", i, r.key, v, strings.Join(why, "; "))
		}
	}
	return r, nil
}

// value is what follows an equals sign: nothing at all is the empty value.
func (p *selectorParser) value() ([]string, error) {
	t := p.peek()
	switch {
	case t.kind == tokenEnd || t.text == ",":
		return []string{""}, nil
	case t.kind != tokenWord:
		return nil, fmt.Errorf("found '%s', expected: identifier", t.text)
	}
	return []string{p.next().text}, nil
}

// list is what follows in and notin; nothing at all, or a comma with nothing
// beside it, stands for the empty value.
func (p *selectorParser) list() (values []string, err error) {
	if t := p.next(); t.text != "(" {
		return nil, fmt.Errorf("found '%s' expected: '('", t.text)
	}
	add := func(v string) {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	for first := true; ; first = false {
		switch t := p.next(); {
		case t.text == ")":
			add("")
			return values, nil
		case t.text == ",":
			add("")
		case t.kind == tokenWord:
			add(t.text)
			switch t := p.peek(); t.text {
			case ",":
				p.next()
			case ")":
				p.next()
				return values, nil
			default:
				return nil, fmt.Errorf("found '%s', expected: ',' or ')'", t.text)
			}
		case first:
			return nil, fmt.Errorf("found '%s', expected: ',', ')' or identifier", t.text)
		default:
			return nil, fmt.Errorf("found '%s', expected: ',', or identifier", t.text)
		}
	}
}
