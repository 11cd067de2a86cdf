// Package jsontree reads and writes JSON as a tree of plain Go values: nil,
// bool, string, json.Number, []any and map[string]any.
//
// [Parse] reads one value and [Append] writes one. They agree with encoding/json
// on every input, which a fuzz test holds them to, except that Append does not
// escape for HTML and that nesting is bounded more tightly.
//
// It exists for one reason: encoding/json adds more to a program that embeds
// this library than all of the library, because it handles every Go type there
// is by reflection. Only the type json.Number is used of it. Do not use this
// package where its size does not count.
package jsontree
