package main

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// kind is the type of a field.
type kind int

const (
	text kind = iota
	integer
	number
	boolean
	list
	set
	texts
	integers
	object
	// oneOf is one of several objects. The API tells them apart by a member `kind`, and a configuration by the name of the one
	// that it has.
	oneOf
	anything
)

// nothing is the default of what is empty if nobody sets it: a list, a map or an object.
type nothing struct{}

// field is an attribute of a resource, as the API describes it.
type field struct {
	Name        string
	Kind        kind
	Description string
	Required    bool
	// Default is nil if the field is null unless somebody sets it.
	Default any
	Choices []string
	Fields  []field
	// InNew and InChange say in which requests it is: those that create a resource, and those that change one. Without either,
	// the server makes it.
	InNew, InChange bool
	// ReadFrom has the members of an answer that say the same, the preferred one first. Without any, it is the one of its name.
	ReadFrom []string
	// WriteOnly says that it is in the configuration only, and in no state.
	WriteOnly bool
	Sensitive bool
	// Varies says that a change of others may change what the server makes.
	Varies bool
	// Filled says that the server gives it a value if nobody else does.
	Filled bool
	// Local says that a person sets it for the provider alone.
	Local bool
}

func (f field) isGiven() bool { return f.InNew || f.InChange || f.Local }

// isFixed says that another value needs another resource.
func (f field) isFixed() bool { return f.InNew && !f.InChange }

// words are its description, and what else a reader wants to know.
func (f field) words() string {
	parts := []string{f.Description}
	if f.Choices != nil {
		parts = append(parts, "One of `"+strings.Join(f.Choices, "`, `")+"`.")
	}
	if _, isEmpty := f.Default.(nothing); f.Default != nil && f.Default != "" && !isEmpty {
		parts = append(parts, fmt.Sprintf("By default `%v`.", f.Default))
	}
	if f.isFixed() {
		parts = append(parts, "Another value replaces the resource.")
	}
	return strings.Join(parts, " ")
}

func attributes(fields []field) map[string]schema.Attribute {
	found := map[string]schema.Attribute{}
	for _, each := range fields {
		found[each.Name] = each.attribute(each.isGiven())
	}
	return found
}

func (f field) attribute(isGiven bool) schema.Attribute {
	var choices []validator.String
	if f.Choices != nil {
		choices = []validator.String{oneOfChoices(f.Choices)}
	}
	words, required, optional, computed := f.words(), f.Required, isGiven && !f.Required, !isGiven || f.Default != nil || f.Filled
	made := fallback{f}
	switch f.Kind {
	case text:
		attribute := schema.StringAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			Sensitive: f.Sensitive, WriteOnly: f.WriteOnly, Validators: choices}
		if f.Default != nil {
			attribute.Default = made
		}
		return attribute
	case integer:
		attribute := schema.Int64Attribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words}
		if f.Default != nil {
			attribute.Default = made
		}
		return attribute
	case number:
		return schema.NumberAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words}
	case boolean:
		attribute := schema.BoolAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words}
		if f.Default != nil {
			attribute.Default = made
		}
		return attribute
	case list:
		return schema.ListAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			ElementType: types.StringType, Default: made}
	case set:
		return schema.SetAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			ElementType: types.StringType, Default: made}
	case texts:
		return schema.MapAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			ElementType: types.StringType, Default: made}
	case integers:
		return schema.MapAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			ElementType: types.Int64Type, Default: made}
	case object, oneOf:
		attribute := schema.SingleNestedAttribute{Required: required, Optional: optional, Computed: computed,
			MarkdownDescription: words, Attributes: map[string]schema.Attribute{}}
		for _, each := range f.Fields {
			attribute.Attributes[each.Name] = each.attribute(true)
		}
		if f.Default != nil {
			attribute.Default = made
		}
		if f.Kind == oneOf {
			attribute.Validators = []validator.Object{exactlyOne{}}
		}
		return attribute
	case anything:
		return schema.DynamicAttribute{Required: required, Optional: optional, Computed: computed, MarkdownDescription: words,
			Sensitive: f.Sensitive}
	}
	panic(fmt.Sprintf("%s has no known kind", f.Name))
}

func (f field) valueType() tftypes.Type {
	return f.attribute(true).GetType().TerraformType(context.Background())
}

// absent returns the value of a field that nobody sets.
func (f field) absent() tftypes.Value {
	of := f.valueType()
	switch given := f.Default.(type) {
	case nil:
		return tftypes.NewValue(of, nil)
	case int:
		return tftypes.NewValue(of, big.NewFloat(float64(given)))
	case nothing:
		switch f.Kind {
		case object:
			members := map[string]tftypes.Value{}
			for _, each := range f.Fields {
				members[each.Name] = each.absent()
			}
			return tftypes.NewValue(of, members)
		case texts, integers:
			return tftypes.NewValue(of, map[string]tftypes.Value{})
		}
		return tftypes.NewValue(of, []tftypes.Value{})
	default:
		return tftypes.NewValue(of, given)
	}
}

// fallback is the default of a field, of any kind.
type fallback struct{ field field }

func (d fallback) value(ctx context.Context) attr.Value {
	made, err := d.field.attribute(true).GetType().ValueFromTerraform(ctx, d.field.absent())
	if err != nil {
		panic(err) // the generated fields are wrong
	}
	return made
}

func (d fallback) Description(context.Context) string         { return "" }
func (d fallback) MarkdownDescription(context.Context) string { return "" }

func (d fallback) DefaultString(ctx context.Context, _ defaults.StringRequest, response *defaults.StringResponse) {
	response.PlanValue = d.value(ctx).(types.String)
}

func (d fallback) DefaultInt64(ctx context.Context, _ defaults.Int64Request, response *defaults.Int64Response) {
	response.PlanValue = d.value(ctx).(types.Int64)
}

func (d fallback) DefaultBool(ctx context.Context, _ defaults.BoolRequest, response *defaults.BoolResponse) {
	response.PlanValue = d.value(ctx).(types.Bool)
}

func (d fallback) DefaultList(ctx context.Context, _ defaults.ListRequest, response *defaults.ListResponse) {
	response.PlanValue = d.value(ctx).(types.List)
}

func (d fallback) DefaultSet(ctx context.Context, _ defaults.SetRequest, response *defaults.SetResponse) {
	response.PlanValue = d.value(ctx).(types.Set)
}

func (d fallback) DefaultMap(ctx context.Context, _ defaults.MapRequest, response *defaults.MapResponse) {
	response.PlanValue = d.value(ctx).(types.Map)
}

func (d fallback) DefaultObject(ctx context.Context, _ defaults.ObjectRequest, response *defaults.ObjectResponse) {
	response.PlanValue = d.value(ctx).(types.Object)
}

// oneOfChoices refuses any other text.
type oneOfChoices []string

func (c oneOfChoices) Description(context.Context) string         { return "one of " + strings.Join(c, ", ") }
func (c oneOfChoices) MarkdownDescription(context.Context) string { return "" }

func (c oneOfChoices) ValidateString(ctx context.Context, request validator.StringRequest, response *validator.StringResponse) {
	given := request.ConfigValue
	if !given.IsNull() && !given.IsUnknown() && !slices.Contains(c, given.ValueString()) {
		response.Diagnostics.AddAttributeError(request.Path, "Not one of the possible values",
			fmt.Sprintf("%q is not %s.", given.ValueString(), c.Description(ctx)))
	}
}

// exactlyOne refuses an object that has none of its members, or more than one.
type exactlyOne struct{}

func (exactlyOne) Description(context.Context) string         { return "exactly one" }
func (exactlyOne) MarkdownDescription(context.Context) string { return "" }

func (exactlyOne) ValidateObject(_ context.Context, request validator.ObjectRequest, response *validator.ObjectResponse) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	members, names, given := request.ConfigValue.Attributes(), []string{}, 0
	for name, each := range members {
		names = append(names, "`"+name+"`")
		if !each.IsNull() {
			given++
		}
	}
	if given != 1 {
		slices.Sort(names)
		response.Diagnostics.AddAttributeError(request.Path, "Not exactly one kind",
			"Give exactly one of "+strings.Join(names, ", ")+".")
	}
}
