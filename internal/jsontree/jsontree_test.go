package jsontree_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// standard is how encoding/json reads the same.
func standard(data []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, err != nil && err.Error() == "EOF"
}

func standardText(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

var texts = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `12.5e-3`, `1E+9`, `"x"`, ` { "a" : [ 1 , {"b":null} ] } `,
	`{"a":1,"a":2}`, `"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ude00\ud83d"`, "\"\xff\xc3(\xe2\x82\"",
	`"` + "\u2028\u2029\u007f" + `"`, `""`, "\t\r\n 1", `{"":{"":[[]]}}`, `[1,2,3]`, `123456789012345678901234567890`,
}

var broken = []string{
	``, ` `, `{`, `}`, `[`, `[1`, `[1,`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{1:2}`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\u+123"`,
	"\"\x01\"", "\"a\nb\"", `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `nul`, `nulll`, `tru`, `True`, `1 2`, `{} x`, `'a'`, "\ufeff{}", `[1}`, `{"a":1]`, `NaN`, `-Infinity`, `"\ud83d\u12"`,
}

func TestParse(t *testing.T) {
	for _, text := range append(texts, broken...) {
		want, ok := standard([]byte(text))
		got, err := jsontree.Parse([]byte(text))
		if (err == nil) != ok {
			t.Errorf("%q: got error %v, encoding/json accepts it: %v", text, err, ok)
		} else if ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
	}
	if _, err := jsontree.ParseObject([]byte(`[]`)); err == nil {
		t.Error("an array is taken for an object")
	}
}

// TestStrings has each byte in each place of a string of some length.
func TestStrings(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := []byte(`"0123456789abcdefghij"`)
			text[at+1] = byte(c)
			want, ok := standard(text)
			if got, err := jsontree.Parse(text); (err == nil) != ok || ok && got != want {
				t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
			}
		}
	}
}

func TestDepth(t *testing.T) {
	for _, pair := range []string{"[]", `{"a":}`} {
		open, end := pair[:len(pair)-1], pair[len(pair)-1:]
		nested := func(n int) []byte {
			return []byte(strings.Repeat(open, n) + "1" + strings.Repeat(end, n))
		}
		if _, err := jsontree.Parse(nested(jsontree.MaxDepth)); err != nil {
			t.Errorf("%s nested %d times: %v", pair, jsontree.MaxDepth, err)
		}
		if _, err := jsontree.Parse(nested(jsontree.MaxDepth + 1)); err == nil {
			t.Errorf("%s nested %d times is accepted", pair, jsontree.MaxDepth+1)
		}
	}
}

type (
	named map[string]any
	list  []string
	word  string
)

func TestAppend(t *testing.T) {
	n := 7
	for _, v := range []any{
		nil, true, "a<b>&c", "\x00\x1f\"\\/\u2028\xff\x7f", 1, int64(-5), int32(3), uint8(9), 1.5, 1e21, 1e-7, 0.0, math.MaxFloat64, json.Number("1e5"), json.Number(""),
		map[string]any{"b": 1, "a": []any{nil, "x"}}, named{"x": named{"y": word("z")}}, list{"p", "q"}, map[string]string{"k": "v"}, []map[string]any{{"a": 1}},
		map[string]any(nil), []any(nil), named(nil), list(nil), &n, (*int)(nil), []any{}, map[word]int{"w": 1}, []int{1, 2},
	} {
		got, err := jsontree.Append(nil, v)
		if err != nil {
			t.Errorf("%#v: %v", v, err)
			continue
		}
		if want := standardText(t, v); !sameNumbers(got, want) {
			t.Errorf("%#v: got %s, want %s", v, got, want)
		}
	}
	for _, v := range []any{struct{}{}, func() {}, make(chan int), math.NaN(), math.Inf(1), json.Number("1x"), json.Number("-"), map[int]string{1: "a"}, []byte("x"), []any{struct{}{}}, map[string]any{"a": complex(1, 2)}} {
		if got, err := jsontree.Append(nil, v); err == nil {
			t.Errorf("%#v was written as %s", v, got)
		}
	}
}

// sameNumbers compares texts, or what they mean where only the way to write an
// exponent differs.
func sameNumbers(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y float64
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

// FuzzParse holds Parse and Append to encoding/json.
func FuzzParse(f *testing.F) {
	for _, text := range append(texts, broken...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, ok := standard(data)
		got, err := jsontree.Parse(data)
		if err != nil && ok && strings.Contains(err.Error(), "deeply") {
			return
		}
		if (err == nil) != ok {
			t.Fatalf("%q: got error %v, encoding/json accepts it: %v", data, err, ok)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %#v, want %#v", data, got, want)
		}
		text, err := jsontree.Append(nil, got)
		if err != nil {
			t.Fatal(err)
		}
		if want := standardText(t, got); !bytes.Equal(text, want) {
			t.Fatalf("written as %s, want %s", text, want)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	data := []byte(`{"type":"data","data":"` + strings.Repeat("QUJD", 64<<10) + `"}`)
	b.Run("jsontree", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for range b.N {
			if _, err := jsontree.Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for range b.N {
			var v any
			if err := json.Unmarshal(data, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "1e3": 1000, "1E+3": 1000, "20.0": 20, "-20.00e1": -200, "1200e-2": 12, "1.5e1": 15, "0.0": 0, "0e999": 0, "-0.0e-5": 0,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "9.223372036854775807e18": math.MaxInt64, "10e-1": 1, "0.10e1": 1, "0e-999": 0,
	} {
		if got, ok := jsontree.Whole(json.Number(text)); !ok || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "0.5", "1e-1", "15e-1", "9223372036854775808", "1e19", "1e999999999", "1e99999999999999999999", "x", "1.2.3", "1e", "-1e-1"} {
		if got, ok := jsontree.Whole(json.Number(text)); ok {
			t.Errorf("%s is taken for %d", text, got)
		}
	}
}

// FuzzWhole holds Whole to exact arithmetic.
func FuzzWhole(f *testing.F) {
	f.Add("12.50e1")
	f.Add("-0.00e-3")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := jsontree.Parse([]byte(text)); err != nil {
			return
		} else if _, number := v.(json.Number); !number {
			return
		}
		text = strings.TrimSpace(text)
		if len(text) > 60 {
			return
		}
		if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(exponent) > 4 {
			return
		}
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return
		}
		want := r.IsInt() && r.Num().IsInt64()
		got, whole := jsontree.Whole(json.Number(text))
		if whole != want || whole && got != r.Num().Int64() {
			t.Errorf("%s: got %d, %v, want %s, %v", text, got, whole, r, want)
		}
	})
}
