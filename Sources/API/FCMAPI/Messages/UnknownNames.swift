/// All names of a request that the schema does not have, for the error that refuses the request.
///
/// FCM names them all together, a line and a violation each. A request with unknown names is refused already,
/// so only such a request pays for this second visit.
struct UnknownNames {
    /// How many names an error lists.
    static let toldMax = 20
    private(set) var found: [(path: String, name: String)] = []

    init(_ value: JSONValue, _ schema: Schema) { visit(value, schema, path: "") }

    private mutating func visit(_ object: JSONValue, _ schema: Schema, path: String) {
        try? object.forEachField { (name, value) throws(APIError) in
            guard found.count < UnknownNames.toldMax else { return }
            guard let index = schema.index(of: name) else {
                return found.append((path, String(decoding: name, as: UTF8.self)))
            }
            let inner = path.isEmpty ? "\(schema.snake[index])" : "\(path).\(schema.snake[index])"
            visit(value, schema.types[index], path: inner)
        }
    }

    private mutating func visit(_ value: JSONValue, _ type: FieldType, path: String) {
        switch type {
        case .object(let schema): visit(value, schema, path: path)
        case .list(let element):
            guard value.kind == .array else { return }
            try? value.forEachElement { (index, inner) throws(APIError) in
                visit(inner, element, path: "\(path)[\(index)]")
            }
        default: break
        }
    }
}
