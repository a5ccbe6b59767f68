/// Finds escapes such as `\ud83d` that are half of a character in UTF-16, without the other half. They come
/// from programs that cut a text in two inside an emoji.
enum HalfCharacter {
    /// The first such escape in a text of JSON, in lower case, or `nil`.
    static func first(in json: [UInt8]) -> String? {
        var index = 0
        while index < json.count {
            guard json[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            guard let unit = unit(json, at: index) else {
                index += 2
                continue
            }
            index += 6
            if 0xD800...0xDBFF ~= unit, let next = self.unit(json, at: index), 0xDC00...0xDFFF ~= next {
                index += 6
            } else if 0xD800...0xDFFF ~= unit {
                return "\\u" + String(unit, radix: 16)
            }
        }
        return nil
    }

    /// The code unit of an escape such as `\ud83d` that begins at an index.
    private static func unit(_ json: [UInt8], at index: Int) -> UInt16? {
        guard index + 6 <= json.count, json[index] == UInt8(ascii: "\\"), json[index + 1] == UInt8(ascii: "u")
        else { return nil }
        return UInt16(String(decoding: json[index + 2..<index + 6], as: UTF8.self), radix: 16)
    }
}
