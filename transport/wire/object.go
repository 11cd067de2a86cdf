package wire

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// An object is a JSON object that is being written: dst ends behind its opening
// brace or its last field.
type object struct {
	dst    []byte
	fields int
}

func (o *object) key(name string) {
	if o.fields++; o.fields > 1 {
		o.dst = append(o.dst, ',')
	}
	o.dst = append(jsontree.AppendString(o.dst, name), ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.dst = jsontree.AppendString(o.dst, value)
}

func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) number(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

func (o *object) numberIf(name string, value int64) {
	if value != 0 {
		o.number(name, value)
	}
}

func (o *object) flag(name string, value bool) {
	o.key(name)
	o.dst = strconv.AppendBool(o.dst, value)
}

// texts appends a list, which may be empty.
func (o *object) texts(name string, list []string) {
	o.key(name)
	o.dst = append(o.dst, '[')
	for i, s := range list {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = jsontree.AppendString(o.dst, s)
	}
	o.dst = append(o.dst, ']')
}

// environ appends the field "env" unless there is nothing in it.
func (o *object) environ(values map[string]string) {
	if len(values) == 0 {
		return
	}
	o.key("env")
	env := object{dst: append(o.dst, '{')}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		env.text(k, values[k])
	}
	o.dst = append(env.dst, '}')
}

// part appends the field "part" unless p is nil.
func (o *object) part(p *Part) {
	if p == nil {
		return
	}
	o.key("part")
	part := object{dst: append(o.dst, '{')}
	part.number("offset", p.Offset)
	part.flag("final", p.Final)
	part.textIf("renameTo", p.RenameTo)
	if p.Discard {
		part.flag("discard", true)
	}
	o.dst = append(part.dst, '}')
}
