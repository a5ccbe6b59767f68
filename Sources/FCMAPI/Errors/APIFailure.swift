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

    public static func notFound(_ reason: String) -> HTTPResponse {
        APIError(status: .notFound, message: reason).response()
    }

    public static func conflict(_ reason: String) -> HTTPResponse {
        APIError(status: .alreadyExists, message: reason).response()
    }

    /// The present state does not allow the request.
    public static func precondition(_ reason: String) -> HTTPResponse {
        APIError(status: .failedPrecondition, message: reason).response()
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
        case number(UInt64)
        case object([(name: String, value: Value)])
        case list([Value])
    }

    private static func write(_ value: Value, to out: inout JSONWriter) {
        switch value {
        case .text(let text): out.string(text)
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
