package k8s

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
)

const (
	defaultPageSize = 500
	maxPages        = 2000
	maxListFactor   = 4 // all pages of a List together, in MaxListBytes
)

// ListOptions choose what is listed. The zero value lists everything.
type ListOptions struct {
	LabelSelector string // as in kubectl -l
	FieldSelector string
	PageSize      int // objects asked for at a time; 0 = 500
}

// A List is a whole collection, as of one resource version.
type List struct {
	Items           []Object
	ResourceVersion string
}

// List reads a collection page by page. If the server gives a page up as too old
// the list is begun anew, once. Part of a list is never returned: it is an error
// like any other.
func (c *Client) List(ctx context.Context, r Resource, o ListOptions) (List, error) {
	l, err := c.list(ctx, r, o)
	if KindOf(err) == Gone {
		l, err = c.list(ctx, r, o)
	}
	if err != nil {
		return List{}, err
	}
	return l, nil
}

func (c *Client) list(ctx context.Context, r Resource, o ListOptions) (List, error) {
	var l List
	var size int64
	limit := c.core.cfg.MaxListBytes * maxListFactor
	for p, err := range c.pages(ctx, r, o) {
		if err != nil {
			return List{}, err
		}
		if size += p.size; size > limit {
			e := p.call.fail(TooLarge, fmt.Sprintf("the list has more than the %d bytes that are allowed in all", limit), nil)
			e.Code = 200
			return List{}, e
		}
		l.Items = append(l.Items, p.items...)
		if l.ResourceVersion == "" {
			l.ResourceVersion = p.resourceVersion
		}
	}
	return l, nil
}

// Items reads a collection page by page and yields its objects as they come. An
// error is yielded last. It then has seen only a part, and unlike [Client.List]
// it cannot begin anew when the server gives a page up as too old: the error is
// [Gone].
func (c *Client) Items(ctx context.Context, r Resource, o ListOptions) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for p, err := range c.pages(ctx, r, o) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range p.items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// A page is one answer of a paged list.
type page struct {
	call            *call
	items           []Object
	resourceVersion string
	next            string // the token of the following page, "" for none
	size            int64
}

func (c *Client) pages(ctx context.Context, r Resource, o ListOptions) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		next := ""
		for n := 0; ; n++ {
			p, err := c.page(ctx, r, o, next, n)
			if !yield(p, err) || err != nil || p.next == "" {
				return
			}
			next = p.next
		}
	}
}

func (c *Client) page(ctx context.Context, r Resource, o ListOptions, next string, n int) (page, error) {
	q, err := c.call("GET", r, "")
	if err != nil {
		return page{}, err
	}
	if o.PageSize < 0 {
		return page{}, q.notSent(fmt.Errorf("k8s: the page size is %d", o.PageSize))
	}
	if o.PageSize == 0 {
		o.PageSize = defaultPageSize
	}
	q.limit = c.core.cfg.MaxListBytes
	q.query = url.Values{"limit": {strconv.Itoa(o.PageSize)}}
	for key, value := range map[string]string{"labelSelector": o.LabelSelector, "fieldSelector": o.FieldSelector, "continue": next} {
		if value != "" {
			q.query.Set(key, value)
		}
	}
	rep, err := c.do(ctx, q)
	if err != nil {
		return page{}, err
	}
	p, err := parsePage(rep.body)
	if err == nil && p.next != "" && p.next == next {
		err = errors.New("it continues with itself")
	}
	if err == nil && p.next != "" && n == maxPages-1 {
		err = fmt.Errorf("it has more than %d pages", maxPages)
	}
	if err != nil {
		return page{}, q.broken(rep, err)
	}
	p.call, p.size = q, int64(len(rep.body))
	return p, nil
}

// parsePage reads one page of a list. An answer without items is no list, and a
// page that holds anything but objects is no page.
func parsePage(body []byte) (page, error) {
	o, err := ParseObject(body)
	if err != nil {
		return page{}, err
	}
	if _, ok := statusOf(o); ok {
		return page{}, errors.New("it is a Status, not a list")
	}
	v, ok := o["items"]
	items, isArray := v.([]any)
	if !ok || v != nil && !isArray {
		return page{}, errors.New("it has no items")
	}
	p := page{resourceVersion: o.ResourceVersion(), next: o.Text("metadata", "continue")}
	if c := o.Field("metadata", "continue"); c != nil && p.next == "" && c != "" {
		return page{}, errors.New("its continue token is no text")
	}
	for i, v := range items {
		m, ok := v.(map[string]any)
		if !ok {
			return page{}, fmt.Errorf("item %d is no object", i)
		}
		p.items = append(p.items, m)
	}
	return p, nil
}
