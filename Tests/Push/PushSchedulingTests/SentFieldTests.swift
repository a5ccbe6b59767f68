import Testing

@testable import PushScheduling

@Suite("A field of a request to a push service") struct SentFieldTests {
    @Test("is sent with a value of visible characters, blanks and tabs between them")
    func sent() {
        for value in ["", "60", "a b", "a\tb", "é"] {
            #expect(SentField.mistake(name: "ttl", value: value, isHTTP2: true) == nil, "\(value)")
        }
        #expect(SentField.mistake(name: "TTL", value: "60", isHTTP2: false) == nil)
    }

    @Test("is not sent with a line's end in its value, or with a blank or a tab at an end of it")
    func values() {
        for value in [" a", "a ", "\ta", "a\t", "a\r\nb", "a\u{0}", "a\u{7f}"] {
            for isHTTP2 in [false, true] {
                let said = SentField.mistake(name: "ttl", value: value, isHTTP2: isHTTP2)
                #expect(said == "the field ttl has a value that cannot be sent", "\(value)")
            }
        }
    }

    @Test("is not sent under a name that the protocol does not have, or that the client sets")
    func names() {
        for name in ["", "a b", "a:b", ":path", "é"] {
            #expect(SentField.mistake(name: name, value: "a", isHTTP2: false) != nil, "\(name)")
        }
        #expect(
            SentField.mistake(name: "TTL", value: "60", isHTTP2: true)
                == "\"TTL\" is no name of a header field in lower case")
        for name in ["Host", "content-length", "TE"] {
            #expect(
                SentField.mistake(name: name, value: "a", isHTTP2: false)
                    == "the client sets the field \(name) itself")
        }
    }
}
