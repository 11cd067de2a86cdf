package guest

import "errors"

// errUnsupported reports a platform on which no programs can be started.
var errUnsupported = errors.New("guest: programs cannot be started on this platform")

// A ConfigError reports a configuration with which a guest must not start.
type ConfigError struct {
	Name    string // the field of Config, or the environment variable
	Problem string // what is wrong with it and what to do
}

func (e *ConfigError) Error() string { return "guest: " + e.Name + " " + e.Problem }

// A refusal is an answer in the protocol's own words: a code that hosts
// compare, optionally followed by a colon and a text.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	codeQuiescing      refusal = "quiesce_in_progress"
	codeMissingCommand refusal = "missing_command"
	codeMissingPath    refusal = "missing_path"
	codeMissingContent refusal = "missing_path_or_content"
	codeNotRegular     refusal = "read_file_stream_not_a_regular_file"
	codePartShape      refusal = "write_part_invalid_shape"
	codePartNoTarget   refusal = "write_part_missing_rename_target"
	codePartInFlight   refusal = "write_part_in_flight"
	codePartNotTemp    refusal = "write_part_not_a_temp_file"
	errEscapes         refusal = "path escapes the workspace"
	errSymlink         refusal = "symlink escapes the workspace"
)
