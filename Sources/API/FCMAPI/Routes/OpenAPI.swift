import HTTPMessages

/// The OpenAPI 3.1 document of the API (https://spec.openapis.org/oas/v3.1.1.html), made from the table of
/// routes and the schema of messages.
enum OpenAPI {
    private typealias Value = APIAnswer.Value

    private static let answers = [false, true].map { isDev in
        var answer = APIAnswer.object(document(Route.all.filter { isDev || !$0.isOfEmulator }))
        answer.fields += HTTPResponse.forPages
        return answer
    }

    static func answer(isDev: Bool) -> HTTPResponse { answers[isDev ? 1 : 0] }

    private static func document(_ routes: [Route]) -> [(name: String, value: Value)] {
        var paths: [(name: String, value: [(name: String, value: Value)])] = []
        for route in routes where route.isDocumented {
            let operation = (name: "\(route.method)", value: operation(route))
            if let index = paths.firstIndex(where: { $0.name == "\(route.path)" }) {
                paths[index].value.append(operation)
            } else {
                paths.append(("\(route.path)", [operation]))
            }
        }
        let about =
            "The API of Firebase Cloud Messaging, and Tidecast's own. Names may be in camelCase or in"
            + " snake_case, and bodies are JSON as protobuf reads it."
        return [
            ("openapi", .text("3.1.0")),
            ("info", texts(("title", "Tidecast"), ("version", "1"), ("description", about))),
            ("paths", .object(paths.map { ($0.name, .object($0.value)) })),
            (
                "components",
                .object([
                    ("securitySchemes", .object(schemes)),
                    ("schemas", .object([("SendRequest", schema(.object(Schema.request)))])),
                ])
            ),
        ]
    }

    private static func operation(_ route: Route) -> Value {
        var fields: [(name: String, value: Value)] = [
            ("operationId", .text(route.endpoint.rawValue)), ("summary", .text("\(route.summary)")),
        ]
        let segments = "\(route.path)".split(separator: "/")
        let names = segments.compactMap { $0.split(separator: "}").first?.split(separator: "{") }
            .compactMap { $0.first }
        let inPath = zip(segments, names).filter { $0.0.hasPrefix("{") }.map { String($0.1) }
        let inQuery = "\(route.query)".split(separator: " ").map { String($0) }
        let parameters =
            inPath.map { parameter($0, in: "path") } + inQuery.map { parameter($0, in: "query") }
        if !parameters.isEmpty { fields.append(("parameters", .list(parameters))) }
        if let body = body(route.body) { fields.append(("requestBody", body)) }
        fields.append(("security", .list(route.access.schemes.map { .object([($0, .list([]))]) })))
        let success =
            switch route.endpoint {
            case .openSocket: "101"
            case .postPush: "201"
            default: "200"
            }
        fields.append(
            (
                "responses",
                .object([
                    (success, texts(("description", "The answer."))),
                    ("default", texts(("description", "An error."))),
                ])
            ))
        return .object(fields)
    }

    private static func parameter(_ name: String, in place: String) -> Value {
        var fields: [(name: String, value: Value)] = [("name", .text(name)), ("in", .text(place))]
        if place == "path" { fields.append(("required", .flag(true))) }
        return .object(fields + [("schema", texts(("type", "string")))])
    }

    private static func body(_ body: Route.Body) -> Value? {
        let (type, content): (String, Value) =
            switch body {
            case .none: ("", .list([]))
            case .message: ("application/json", texts(("$ref", "#/components/schemas/SendRequest")))
            case .json, .batch, .settings: ("application/json", texts(("type", "object")))
            case .form, .shortForm: ("application/x-www-form-urlencoded", texts(("type", "object")))
            case .encrypted: ("application/octet-stream", .object([]))
            }
        if type.isEmpty { return nil }
        return .object([("content", .object([(type, .object([("schema", content)]))]))])
    }

    /// The JSON Schema of a field's values as SDKs write them. The server also reads what protobuf's JSON
    /// allows beside them.
    private static func schema(_ type: FieldType) -> Value {
        switch type {
        case .string: texts(("type", "string"))
        case .bool: texts(("type", "boolean"))
        case .int32: texts(("type", "integer"), ("format", "int32"))
        case .word(let list):
            .object([
                ("type", .text("string")),
                // Some SDKs write words in lower case.
                ("enum", .list(list.words.flatMap { ["\($0)", "\($0)".lowercased()] }.map { .text($0) })),
            ])
        case .duration: texts(("type", "string"), ("pattern", "^[0-9]+(\\.[0-9]{1,9})?s$"))
        case .timestamp: texts(("type", "string"), ("format", "date-time"))
        case .stringMap:
            .object([
                ("type", .text("object")), ("additionalProperties", texts(("type", "string"))),
            ])
        case .list(let element): .object([("type", .text("array")), ("items", schema(element))])
        case .object(let fields):
            .object([
                ("type", .text("object")),
                ("properties", .object(zip(fields.camel, fields.types).map { ("\($0)", schema($1)) })),
            ])
        case .free: texts(("type", "object"))
        case .color: texts(("type", "string"), ("pattern", "^#[0-9A-Fa-f]{6}$"))
        case .fraction:
            .object([
                ("type", .text("number")), ("minimum", .number(0)), ("maximum", .number(1)),
            ])
        }
    }

    private static let schemes: [(name: String, value: Value)] = [
        ("bearer", texts(("type", "http"), ("scheme", "bearer"))),
        ("appKey", key("x-goog-api-key", "An API key of the project.")),
        (
            "installation",
            key("x-goog-firebase-installations-auth", "`FIS` and an installation's auth token.")
        ),
        ("deviceCredential", key("authorization", "`Bearer` and the device's credential.")),
        ("refreshToken", key("authorization", "`FIS_v2` and an installation's refresh token.")),
        ("login", key("authorization", "`AidLogin ID:SECRET` of a check-in.")),
        ("vapid", key("authorization", "`vapid` and a sender's token (RFC 8292).")),
    ]

    private static func key(_ field: String, _ about: String) -> Value {
        texts(("type", "apiKey"), ("in", "header"), ("name", field), ("description", about))
    }

    private static func texts(_ fields: (String, String)...) -> Value {
        .object(fields.map { ($0.0, .text($0.1)) })
    }
}

extension Route {
    /// Whether a development server alone has it.
    fileprivate var isOfEmulator: Bool { "\(path)".hasPrefix("/emulator/") }
}

extension Route.Access {
    /// Any one of these is enough.
    fileprivate var schemes: [String] {
        switch self {
        case .anyone: []
        case .backend, .operators, .operatorsAndBackends: ["bearer"]
        case .app: ["appKey", "installation", "bearer"]
        case .device: ["deviceCredential", "installation", "bearer"]
        case .refreshToken: ["refreshToken"]
        case .phone: ["login", "deviceCredential"]
        case .sender: ["vapid"]
        }
    }
}
