"""Tools and resources made from models, forms, ModelAdmins, and viewsets of Django REST framework.

    model_tools        `ModelTools`, the options of a published model
    registration       `register`: makes tools and a resource template from them
    layout             columns, arguments and filters of a published model
    operations         list, get, create and update
    model_fields       a model's fields as JSON
    model_forms        Django's validation for some of a row's fields
    model_resources    rows as resources
    lookups            filters
    forms              `form_tool`: a Django form as a tool
    form_fields        a form's fields as JSON Schema
    cleaned            tools' functions that take cleaned data
    arguments          arguments for forms, and forms' errors for the model
    kinds              Django's types of values as JSON
    names              words for rows, and names of tools
    view_requests      requests for viewsets and ModelAdmins
    admin/             models of an admin site, by their ModelAdmins
    drf/               viewsets of Django REST framework

This package uses the public API only (`mcp_app.tools`, `mcp_app.resources`), so its tools are
ordinary tools to the catalogue, the worker and the admin. No field is published unless it is named.
"""
