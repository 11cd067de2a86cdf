package sandlot_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeProgram holds the README's program to an example that compiles.
func TestReadmeProgram(t *testing.T) {
	program := body(t, "README.md", "func main() {\n")
	if example := body(t, "acquire/example_test.go", "func Example() {\n"); program != example {
		t.Errorf("README.md has\n%s\nand acquire/example_test.go\n%s", program, example)
	}
}

// body is what a file has between the head of a function and the brace in the
// first column that ends it.
func body(t *testing.T, file, head string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), head)
	inside, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatalf("%s has no %q", file, head)
	}
	return inside
}
