import Credentials
import HTTPMessages

/// Errors that the node answers without an outcome, in FCM's envelope.
public enum APIFailure {
    public static func unavailable(_ reason: String) -> HTTPResponse {
        APIError(
            status: .unavailable, message: "The service is currently unavailable: \(reason).",
            fcmCode: "UNAVAILABLE"
        )
        .response()
    }

    /// A change that the catalog does not make.
    public static func refused(_ refusal: ChangeRefusal) -> HTTPResponse {
        switch refusal.reason {
        case .unknown: APIError(status: .notFound, message: refusal.message).response()
        case .wrong(let field): APIError.invalid(field, refusal.message).response()
        case .conflict: APIError(status: .alreadyExists, message: refusal.message).response()
        case .precondition: APIError(status: .failedPrecondition, message: refusal.message).response()
        }
    }
}

/// A JSON object with fields of the node's own.
public enum APIAnswer {
    public static func object(_ fields: [(name: String, value: Value)]) -> HTTPResponse {
        var out = JSONWriter()
        write(.object(fields), to: &out)
        return HTTPResponse(status: 200, fields: API.jsonFields, body: out.bytes)
    }

    public indirect enum Value: Sendable {
        case text(String)
        case flag(Bool)
        case number(UInt64)
        case object([(name: String, value: Value)])
        case list([Value])
    }

    private static func write(_ value: Value, to out: inout JSONWriter) {
        switch value {
        case .text(let text): out.string(text)
        case .flag(let flag): out.bool(flag)
        case .number(let number): out.number(number)
        case .list(let values):
            out.beginArray()
            for value in values { write(value, to: &out) }
            out.endArray()
        case .object(let fields):
            out.beginObject()
            for field in fields {
                out.key(Array(field.name.utf8))
                write(field.value, to: &out)
            }
            out.endObject()
        }
    }
}
