package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// precision is that of the numbers of a configuration, in bits.
const precision = 512

// values are the attributes of a resource.
type values map[string]tftypes.Value

func valuesOf(raw tftypes.Value) values {
	found := values{}
	if !raw.IsNull() {
		must(raw.As((*map[string]tftypes.Value)(&found)))
	}
	return found
}

// text returns a text attribute; it is empty if that is null.
func (v values) text(name string) string {
	found, _ := toJSON(v[name]).(string)
	return found
}

// toJSON returns a known value as JSON has it. Null and what is unknown are nil.
func toJSON(value tftypes.Value) any {
	if value.IsNull() || !value.IsKnown() {
		return nil
	}
	of := value.Type()
	switch {
	case of.Is(tftypes.String):
		var found string
		must(value.As(&found))
		return found
	case of.Is(tftypes.Bool):
		var found bool
		must(value.As(&found))
		return found
	case of.Is(tftypes.Number):
		var found big.Float
		must(value.As(&found))
		if found.IsInt() {
			return json.Number(found.Text('f', 0))
		}
		return json.Number(found.Text('g', -1))
	case of.Is(tftypes.List{}), of.Is(tftypes.Set{}), of.Is(tftypes.Tuple{}):
		var items []tftypes.Value
		must(value.As(&items))
		found := []any{}
		for _, each := range items {
			found = append(found, toJSON(each))
		}
		return found
	default:
		var members map[string]tftypes.Value
		must(value.As(&members))
		found := map[string]any{}
		for name, each := range members {
			found[name] = toJSON(each)
		}
		return found
	}
}

// encode returns the value of a field as the API takes it.
func (f field) encode(value tftypes.Value) any {
	made := toJSON(value)
	if found, ok := made.(map[string]any); ok && f.Kind == oneOf {
		for name, each := range found {
			if members, ok := each.(map[string]any); ok {
				members["kind"] = name
				return members
			}
		}
	}
	return made
}

// encodeChange returns a field as a request to change it has it: what has been taken out of a map is null there.
func (f field) encodeChange(before, after tftypes.Value) any {
	made := f.encode(after)
	if f.Kind != object && f.Kind != texts && f.Kind != integers {
		return made
	}
	return withRemovals(f, toJSON(before), made)
}

func withRemovals(f field, before, after any) any {
	old, hasOld := before.(map[string]any)
	made, hasMade := after.(map[string]any)
	if !hasOld || !hasMade {
		return after
	}
	switch f.Kind {
	case texts, integers:
		for name := range old {
			if _, ok := made[name]; !ok {
				made[name] = nil
			}
		}
	case object:
		for _, each := range f.Fields {
			made[each.Name] = withRemovals(each, old[each.Name], made[each.Name])
		}
	}
	return made
}

// decode returns a member of an answer as the value of a field.
func (f field) decode(answer any) tftypes.Value {
	if answer == nil {
		return f.absent()
	}
	of := f.valueType()
	switch f.Kind {
	case object:
		given, _ := answer.(map[string]any)
		members := map[string]tftypes.Value{}
		for _, each := range f.Fields {
			members[each.Name] = each.decode(given[each.Name])
		}
		return tftypes.NewValue(of, members)
	case oneOf:
		given, _ := answer.(map[string]any)
		members := map[string]tftypes.Value{}
		for _, each := range f.Fields {
			members[each.Name] = tftypes.NewValue(each.valueType(), nil)
			if each.Name == given["kind"] {
				members[each.Name] = each.decode(answer)
			}
		}
		return tftypes.NewValue(of, members)
	case texts, integers:
		given, _ := answer.(map[string]any)
		members := map[string]tftypes.Value{}
		for name, each := range given {
			members[name] = inferred(each)
		}
		return tftypes.NewValue(of, members)
	case list, set:
		given, _ := answer.([]any)
		items := []tftypes.Value{}
		for _, each := range given {
			items = append(items, inferred(each))
		}
		return tftypes.NewValue(of, items)
	default:
		return inferred(answer)
	}
}

// inferred returns a value of JSON with the type that a configuration would give it.
func inferred(value any) tftypes.Value {
	switch found := value.(type) {
	case nil:
		return tftypes.NewValue(tftypes.DynamicPseudoType, nil)
	case string:
		return tftypes.NewValue(tftypes.String, found)
	case bool:
		return tftypes.NewValue(tftypes.Bool, found)
	case json.Number:
		parsed, _, err := big.ParseFloat(found.String(), 10, precision, big.ToNearestEven)
		must(err)
		return tftypes.NewValue(tftypes.Number, parsed)
	case []any:
		items, of := []tftypes.Value{}, []tftypes.Type{}
		for _, each := range found {
			items = append(items, inferred(each))
			of = append(of, items[len(items)-1].Type())
		}
		return tftypes.NewValue(tftypes.Tuple{ElementTypes: of}, items)
	case map[string]any:
		members, of := map[string]tftypes.Value{}, map[string]tftypes.Type{}
		for name, each := range found {
			members[name] = inferred(each)
			of[name] = members[name].Type()
		}
		return tftypes.NewValue(tftypes.Object{AttributeTypes: of}, members)
	}
	panic(fmt.Sprintf("JSON has no %T", value))
}

// member returns a member of an answer by its name, or by a path of names with dots between them.
func member(answer map[string]any, path string) any {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		answer, _ = answer[name].(map[string]any)
	}
	return answer[names[len(names)-1]]
}

// isSame says whether two values are the same as JSON.
func isSame(one, other any) bool {
	first, _ := json.Marshal(one)
	second, _ := json.Marshal(other)
	return string(first) == string(second)
}

// must ends the provider on an error that only a mistake in its own schema can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
