/// `application/x-www-form-urlencoded`. Only the wanted fields are kept, because the sender of a form has
/// shown no credential yet.
struct Form {
    /// The most fields of a form; SDKs send about a dozen.
    static let fieldsMax = 256

    private var values: [(name: StaticString, value: ArraySlice<UInt8>)] = []

    /// Of a repeated name the last field counts. `nil` if the form has more than `Route.Body.form.bytesMax`
    /// bytes or `fieldsMax` fields.
    init?(_ body: [UInt8], wanted: StaticString...) {
        guard body.count <= Route.Body.form.bytesMax else { return nil }
        var rest = body[...]
        var count = 0
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? rest.endIndex
            let pair = rest[..<end]
            rest = rest[end...].dropFirst()
            count += 1
            guard count <= Form.fieldsMax else { return nil }
            if pair.isEmpty { continue }
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            guard let name = Target.name(pair[..<equals], among: wanted) else { continue }
            values.append((name, pair[equals...].dropFirst()))
        }
    }

    subscript(name: String) -> String? {
        values.last { $0.name.description == name }.map {
            String(decoding: Target.decode($0.value, plus: true, lenient: true) ?? [], as: UTF8.self)
        }
    }
}
