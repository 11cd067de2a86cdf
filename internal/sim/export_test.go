package sim

// Selects parses a label selector and asks it.
func Selects(s string, labels map[string]string) (bool, error) {
	sel, err := parseSelector(s)
	return sel.matches(labels), err
}

// MergePatch is RFC 7386 on texts.
func MergePatch(doc, patch string) (string, error) {
	d, err := decode([]byte(doc))
	if err != nil {
		return "", err
	}
	p, err := decode([]byte(patch))
	if err != nil {
		return "", err
	}
	return string(marshal(mergePatch(d, p))), nil
}

// JSONPatch is RFC 6902 on texts.
func JSONPatch(doc, patch string) (string, error) {
	d, err := decode([]byte(doc))
	if err != nil {
		return "", err
	}
	ops, err := parseJSONPatch([]byte(patch))
	if err != nil {
		return "", err
	}
	d, err = jsonPatch(d, ops)
	if err != nil {
		return "", err
	}
	return string(marshal(d)), nil
}

// Admit runs the schema of a kind over an object and returns the object as it
// would be kept, the unknown fields and the refusal.
func Admit(kind, text string) (kept string, unknown []string, refusal string, err error) {
	v, err := decode([]byte(text))
	if err != nil {
		return "", nil, "", err
	}
	o, ok := v.(object)
	if !ok {
		return "", nil, "", nil
	}
	for _, r := range resources {
		if r.kind == kind {
			unknown, f := (&world{cfg: &Config{}}).admit(r, o, false)
			if f != nil {
				refusal = f.message
			}
			return string(marshal(o)), unknown, refusal, nil
		}
	}
	return "", nil, "", nil
}
