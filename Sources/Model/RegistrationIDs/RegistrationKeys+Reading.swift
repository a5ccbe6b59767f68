import COpenSSL
import Model

// Reading ids and secrets from clients: registration ids singly or by the thousand, and texts of proofs.

extension RegistrationKeys {
    /// A FID or a token, deciphered.
    public func decipher(_ text: UnsafeBufferPointer<UInt8>) -> Result<Registration, RegistrationError> {
        guard let form = IDForm(text) else { return .failure(.malformed) }
        for key in keys {
            let block = RegistrationKeys.block(key.decipher, form.high, low: form.low)
            if let result = RegistrationKeys.registration(
                block.high, block.low, key: key.key, suffix: form.suffix)
            {
                return result
            }
        }
        return .failure(.unknownKey)
    }

    public func decipher(_ text: [UInt8]) -> Result<Registration, RegistrationError> {
        text.withUnsafeBufferPointer { decipher($0) }
    }

    public func decipher(_ text: ArraySlice<UInt8>) -> Result<Registration, RegistrationError> {
        text.withUnsafeBufferPointer { decipher($0) }
    }

    /// Deciphers many at once, with one call to libcrypto for each key that is needed. `results` becomes as
    /// long as `texts`, in the same order.
    public func decipher(
        _ texts: [UnsafeBufferPointer<UInt8>],
        into results: inout [Result<Registration, RegistrationError>]
    ) {
        results.removeAll(keepingCapacity: true)
        results.reserveCapacity(texts.count)
        scratch.removeAll()
        for (position, text) in texts.enumerated() {
            guard let form = IDForm(text) else {
                results.append(.failure(.malformed))
                continue
            }
            results.append(.failure(.unknownKey))
            scratch.append(position, form)
        }
        for key in keys where !scratch.positions.isEmpty {
            scratch.decipher(key.decipher)
            var kept = 0
            for number in scratch.positions.indices {
                let high = UInt64(bigEndian: scratch.output[2 * number])
                let low = UInt64(bigEndian: scratch.output[2 * number + 1])
                let read = RegistrationKeys.registration(
                    high, low, key: key.key, suffix: scratch.suffixes[number])
                if let read {
                    results[scratch.positions[number]] = read
                } else {
                    scratch.keep(number, at: kept)
                    kept += 1
                }
            }
            scratch.truncate(to: kept)
        }
    }

    /// Reads the text of a credential, or of a token's suffix.
    public func parseProof(_ text: UnsafeBufferPointer<UInt8>) -> DeviceMAC? {
        guard text.count == RegistrationKeys.credentialLength, let bits = RegistrationKeys.read132(text),
            bits.head == 0
        else { return nil }
        return DeviceMAC(high: bits.high, low: bits.low)
    }

    public func parseProof(_ text: some Collection<UInt8>) -> DeviceMAC? {
        Array(text).withUnsafeBufferPointer { parseProof($0) }
    }

    /// `nil` if the zeros are missing: the key does not fit. A wrong key fits by chance once in 2^40.
    static func registration(
        _ high: UInt64, _ low: UInt64, key: RegistrationKey, suffix: DeviceMAC?
    ) -> Result<Registration, RegistrationError>? {
        guard low & 0xFF_FFFF_FFFF == 0 else { return nil }
        if key.isRetired { return .failure(.retiredKey) }
        return .success(
            Registration(
                project: ProjectNumber(UInt32(high & 0xFF_FFFF)), partition: PartitionID(UInt16(high >> 52)),
                index: DeviceIndex(UInt32(high >> 24 & 0xFFF_FFFF)), nonce: UInt32(low >> 40),
                key: key.number,
                suffix: suffix))
    }
}

/// The content of a registration id's characters, before any key: the enciphered block, and a token's suffix.
struct IDForm {
    var high: UInt64
    var low: UInt64
    var suffix: DeviceMAC?

    /// `nil` if the text is neither a FID nor a token.
    init?(_ text: UnsafeBufferPointer<UInt8>) {
        guard
            text.count == RegistrationKeys.fidLength || text.count == RegistrationKeys.tokenLength
                || text.count == RegistrationKeys.boundTokenLength,
            let id = RegistrationKeys.read132(text), id.head == 0b0111
        else { return nil }
        (high, low) = (id.high, id.low)
        guard text.count > RegistrationKeys.fidLength else { return }
        let start = RegistrationKeys.fidLength + 1
        guard text[start - 1] == UInt8(ascii: ":"), let proof = RegistrationKeys.read132(text, from: start),
            proof.head == 0
        else { return nil }
        suffix = DeviceMAC(high: proof.high, low: proof.low)
        // The binding of a bound token addresses nothing: only its form counts here.
        guard text.count == RegistrationKeys.boundTokenLength else { return }
        guard let binding = RegistrationKeys.read132(text, from: RegistrationKeys.tokenLength),
            binding.head == RegistrationKeys.boundHead
        else { return nil }
    }
}

/// The blocks of a batch side by side, as libcrypto wants them, with each block's position in the batch.
struct BatchScratch {
    private(set) var positions: [Int] = []
    private(set) var suffixes: [DeviceMAC?] = []
    /// Two words a block, in the byte order of the text.
    private var input: [UInt64] = []
    private(set) var output: [UInt64] = []

    mutating func removeAll() {
        positions.removeAll(keepingCapacity: true)
        suffixes.removeAll(keepingCapacity: true)
        input.removeAll(keepingCapacity: true)
    }

    mutating func append(_ position: Int, _ form: IDForm) {
        positions.append(position)
        suffixes.append(form.suffix)
        input.append(form.high.bigEndian)
        input.append(form.low.bigEndian)
    }

    /// Moves a block to the front, for the next key.
    mutating func keep(_ number: Int, at position: Int) {
        positions[position] = positions[number]
        suffixes[position] = suffixes[number]
        input[2 * position] = input[2 * number]
        input[2 * position + 1] = input[2 * number + 1]
    }

    mutating func truncate(to count: Int) {
        positions.removeSubrange(count...)
        suffixes.removeSubrange(count...)
        input.removeSubrange((2 * count)...)
    }

    /// Deciphers all blocks, each by itself (ECB: each block is one id, never part of a longer text).
    mutating func decipher(_ context: OpaquePointer) {
        if output.count < input.count {
            output.append(contentsOf: repeatElement(0, count: input.count - output.count))
        }
        input.withUnsafeBytes { source in
            output.withUnsafeMutableBytes { target in
                // libcrypto counts bytes in 32 bits; a body of 1 MiB, the edge's limit, has far fewer.
                var written: Int32 = 0
                _ = EVP_CipherUpdate(
                    context, target.bindMemory(to: UInt8.self).baseAddress, &written,
                    source.bindMemory(to: UInt8.self).baseAddress, Int32(clamping: source.count))
            }
        }
    }
}
