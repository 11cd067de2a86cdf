package policy

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

const maxPasses = 256

// memo remembers passes by the labels they were judged for, the least recently used one first to go. Only passes are kept: a
// refusal is looked at anew. The owner's mutex guards it.
type memo struct {
	entries map[string]*list.Element
	recent  list.List // of *pass, most recent first
}

type pass struct {
	key     string
	report  *Report
	expires time.Time
}

// find returns the pass for the key if it is still good.
func (m *memo) find(key string, now time.Time) (*Report, bool) {
	e, ok := m.entries[key]
	if !ok {
		return nil, false
	}
	p := e.Value.(*pass)
	if !now.Before(p.expires) {
		m.drop(e)
		return nil, false
	}
	m.recent.MoveToFront(e)
	return p.report, true
}

// store keeps a pass until it expires. A pass that another caller stored meanwhile stays if it lasts longer.
func (m *memo) store(key string, report *Report, expires time.Time) {
	if e, ok := m.entries[key]; ok {
		if p := e.Value.(*pass); p.expires.Before(expires) {
			p.report, p.expires = report, expires
		}
		m.recent.MoveToFront(e)
		return
	}
	if m.entries == nil {
		m.entries = make(map[string]*list.Element)
	}
	m.entries[key] = m.recent.PushFront(&pass{key, report, expires})
	for len(m.entries) > maxPasses {
		m.drop(m.recent.Back())
	}
}

// any reports whether any pass is still good.
func (m *memo) any(now time.Time) bool {
	for e := m.recent.Front(); e != nil; e = e.Next() {
		if now.Before(e.Value.(*pass).expires) {
			return true
		}
	}
	return false
}

func (m *memo) clear() {
	m.entries = nil
	m.recent.Init()
}

func (m *memo) drop(e *list.Element) {
	delete(m.entries, e.Value.(*pass).key)
	m.recent.Remove(e)
}

// memoKey tells pods apart as far as policies can, by the labels whose keys matter.
func memoKey(pod Pod, matters func(key string) bool) string {
	parts := []string{pod.Namespace, strconv.FormatBool(pod.Known)}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if matters(key) {
			parts = append(parts, "label", key, pod.Labels[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.NamespaceLabels)) {
		parts = append(parts, "namespace", key, pod.NamespaceLabels[key])
	}
	if pod.Known {
		for _, p := range pod.Ports {
			parts = append(parts, "port", p.Name, p.Protocol, strconv.Itoa(p.Port))
		}
	}
	return fmt.Sprintf("%q", parts)
}
