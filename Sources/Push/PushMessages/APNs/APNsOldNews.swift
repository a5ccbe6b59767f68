/// Messages that Apple has answered with old news: 410 with a time before the device registered its token.
///
/// A message gets one more try after the first such answer, however often the message failed for other
/// reasons before. The node forgets with its process, and drops the oldest half if there are many: then the
/// message gets another try.
public struct APNsOldNews: Sendable {
    static let messagesMax = 8192
    private var newest: Set<String> = []
    private var former: Set<String> = []
    var count: Int { newest.count + former.count }

    public init() {}

    /// Notes an answer to a push, by its `APNsMessage.id`. Returns whether the push has had such an answer
    /// before, and forgets the push then: the message is given up.
    public mutating func isRepeated(_ id: String) -> Bool {
        if newest.remove(id) != nil || former.remove(id) != nil { return true }
        if newest.count >= APNsOldNews.messagesMax / 2 { (former, newest) = (newest, []) }
        newest.insert(id)
        return false
    }
}
