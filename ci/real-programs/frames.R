# R: data frames that are split, merged and modelled, text, and forked workers.
options(width = 120, digits = 10)
set.seed(7, kind = "Mersenne-Twister", normal.kind = "Inversion", sample.kind = "Rejection")
n <- 40000
d <- data.frame(id = seq_len(n), group = sample(letters, n, TRUE), x = rnorm(n), y = runif(n))
d$z <- 2 * d$x - d$y + rnorm(n) / 10
print(aggregate(cbind(x, y, z) ~ group, d, mean))
print(coef(lm(z ~ x + y + group, d)))
lookup <- data.frame(group = letters, weight = seq_along(letters))
m <- merge(d, lookup, by = "group")
m <- m[order(m$id), ]
print(sum(m$weight * m$id))
print(tapply(m$z, list(m$group, m$weight %% 3), length))
words <- vapply(1:20000, function(i) paste(rep(letters[i %% 26 + 1], i %% 50), collapse = ""), "")
print(table(nchar(gsub("[aeiou]", "", words)))[1:10])
print(sum(utf8ToInt(paste(rev(strsplit(paste(words, collapse = " "), "")[[1]]), collapse = ""))))
for (round in 1:5) { kept <- lapply(1:3000, function(i) numeric(i %% 700)); gc() }
stopifnot(all(vapply(kept, function(v) all(v == 0), TRUE)))
big <- matrix(runif(250000), 500)
print(round(sum(diag(solve(big) %*% big)), 6))
file <- tempfile()
saveRDS(d, file)
print(identical(d, readRDS(file)))
print(unlist(parallel::mclapply(1:8, function(i) { v <- lapply(1:2000, function(k) rep(i, k)); sum(lengths(v)) * i },
                                mc.cores = 2)))
print(system("printf 'c\\nb\\na\\n' | sort", intern = TRUE))
e <- new.env()
for (i in 1:30000) assign(paste0("k", i %% 9000), rep(i, i %% 30), e)
print(sum(unlist(mget(sort(ls(e)), e))))
