#if DEBUG
    import Model

    /// Answers sends to some topics with an error, so that a test can see how clients cope. Only debug builds
    /// have it, and only `TIDECAST_FAILPOINT=send.answers` in the server's environment switches it on. A send
    /// to the topic `failpoint.NAME.COUNT` gets the error NAME the first COUNT times, on each loop, and has
    /// no other effect. Names: `unavailable`, `internal`, `deadline`, `third-party-auth`.
    struct AnswerFailpoint {
        private var given: [String: Int] = [:]

        mutating func error(for topic: TopicName) -> APIError? {
            let parts = topic.description.split(separator: ".")
            guard parts.count == 3, parts[0] == "failpoint", let count = Int(parts[2]) else { return nil }
            let before = given[topic.description, default: 0]
            guard before < count else { return nil }
            given[topic.description] = before + 1
            return switch parts[1] {
            case "unavailable":
                APIError(status: .unavailable, message: "A failpoint.", fcmCode: "UNAVAILABLE")
            case "internal": APIError(status: .internalError, message: "A failpoint.", fcmCode: "INTERNAL")
            case "deadline": APIError(status: .deadlineExceeded, message: "A failpoint.")
            case "third-party-auth":
                APIError(
                    status: .unauthenticated, message: "A failpoint.", fcmCode: "THIRD_PARTY_AUTH_ERROR")
            default: nil
            }
        }
    }
#endif
