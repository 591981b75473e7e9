"""Without the terms that are too small to count.

Stars: 3
"""


def predict_attention(chip, *, B, K, M, S, H):
    scores = B * K * M * S
    return predicted(chip, 4 * B * K * (M + S) * H, 4 * scores * H, 8 * scores)


def predict_latent_attention(chip, *, B, R, S, L):
    rows, scores = 2 * B * S * L, B * R * S
    return predicted(chip, rows + 4 * B * R * L, 4 * scores * L, rows + 16 * scores)
